use super::*;

fn free(spans: &[(u64, u64)]) -> FreeSpans {
    let mut free = FreeSpans::default();
    for &(first, blocks) in spans {
        free.give(Span { first, blocks });
    }
    free
}

fn spans(free: &FreeSpans) -> Vec<(u64, u64)> {
    let by_place: Vec<_> = free.by_place.iter().map(|(&first, &blocks)| (first, blocks)).collect();
    let mut by_length: Vec<_> =
        free.by_length.iter().map(|&(blocks, first)| (first, blocks)).collect();
    by_length.sort_unstable();
    assert_eq!(by_place, by_length);
    assert_eq!(free.blocks(), by_place.iter().map(|&(_, blocks)| blocks).sum::<u64>());
    by_place
}

#[test]
fn neighbours_join() {
    assert_eq!(spans(&free(&[(0, 2), (4, 2)])), [(0, 2), (4, 2)]);
    assert_eq!(spans(&free(&[(0, 2), (2, 2)])), [(0, 4)]);
    assert_eq!(spans(&free(&[(2, 2), (0, 2)])), [(0, 4)]);
    assert_eq!(spans(&free(&[(0, 2), (4, 2), (2, 2)])), [(0, 6)]);
}

#[test]
fn the_shortest_and_then_lowest_fit_is_taken() {
    let mut free = free(&[(0, 9), (10, 3), (20, 5), (30, 3)]);
    assert_eq!(free.take(3, 1), Some(Span { first: 10, blocks: 3 }));
    assert_eq!(free.take(2, 1), Some(Span { first: 30, blocks: 2 }));
    assert_eq!(free.take(4, 1), Some(Span { first: 20, blocks: 4 }));
    assert_eq!(free.take(10, 1), None);
    assert_eq!(spans(&free), [(0, 9), (24, 1), (32, 1)]);
}

#[test]
fn what_an_aligned_part_leaves_on_either_side_stays_free() {
    let mut free = free(&[(3, 20)]);
    assert_eq!(free.take(4, 8), Some(Span { first: 8, blocks: 4 }));
    assert_eq!(spans(&free), [(3, 5), (12, 11)]);
    assert_eq!(free.longest(), 11);
}

#[test]
fn an_aligned_hole_is_filled_before_a_longer_run_is_broken() {
    let mut free = free(&[(8, 8), (100, 100)]);
    assert_eq!(free.take(8, 8), Some(Span { first: 8, blocks: 8 }));
}

#[test]
fn the_only_aligned_run_is_found_among_many_that_are_not() {
    let misaligned = (0..100).map(|i| (i * 16 + 1, 8));
    let mut free = free(&misaligned.chain([(1600, 8)]).collect::<Vec<_>>());
    assert_eq!(free.take(8, 16), Some(Span { first: 1600, blocks: 8 }));
    assert_eq!(free.take(8, 16), None);
}

#[test]
#[should_panic(expected = "a span is given back once")]
fn a_span_given_back_twice_is_caught() {
    free(&[(0, 8), (2, 2)]);
}
