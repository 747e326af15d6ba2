//! Faults that allocators of this kind have had, and what must happen instead.

use pangea_alloc::{BLOCK_BYTES, Error, Heap, Layout, MAX_CAPACITY, Result};

use crate::random::Random;
use crate::shadow::Shadow;

const MIB: u64 = 1 << 20;

fn layout(size: u64) -> Layout {
    Layout::new(size, 8).unwrap()
}

fn out_of_memory(wanted: u64, largest_free: u64, capacity: u64) -> Result<u64> {
    Err(Error::OutOfMemory { wanted, align: 8, largest_free, capacity })
}

/// Memory that was promised and is not there kills the process at first touch.
#[test]
fn memory_that_is_provided_step_by_step_is_refused_before_it_is_there() -> Result<()> {
    let heap = Heap::new(64 * MIB, 0)?;
    let before = heap.allocate(layout(60 * MIB))?;
    assert_eq!(heap.allocate(layout(40 * MIB)), out_of_memory(40 * MIB, 4 * MIB, 64 * MIB));

    heap.grow(256 * MIB)?;
    let across = heap.allocate(layout(40 * MIB))?;
    assert_eq!(across, 60 * MIB, "the new memory joins what was free at the end");

    heap.grow(128 * MIB)?;
    assert_eq!(heap.statistics().capacity_bytes, 256 * MIB, "a heap does not shrink");
    heap.free(before)?;
    heap.free(across)?;
    heap.allocate(layout(256 * MIB)).map(drop)
}

/// Freed neighbours do not join, so that a heap half empty has no room.
#[test]
fn freed_neighbours_make_room_for_what_spans_them() -> Result<()> {
    let heap = Heap::new(150 * MIB, 0)?;
    let first = heap.allocate(layout(60 * MIB))?;
    let second = heap.allocate(layout(30 * MIB))?;
    let third = heap.allocate(layout(60 * MIB))?;
    heap.free(first)?;
    heap.free(third)?;
    assert_eq!(heap.allocate(layout(100 * MIB)), out_of_memory(100 * MIB, 60 * MIB, 150 * MIB));
    heap.free(second)?;
    heap.allocate(layout(140 * MIB)).map(drop)
}

/// A heap fragments until what fits by far is refused.
#[test]
fn a_million_allocations_at_70_percent_all_find_room() {
    let capacity = 150 * MIB;
    let mut random = Random(69);
    let mut shadow = Shadow::new(capacity, 0);
    for _ in 0..1_000_000 {
        let size = 16 + random.magnitude(20);
        while shadow.live_bytes() + size > capacity / 10 * 7 {
            shadow.free_near(random.below(capacity));
        }
        let align = 1 << random.below(13);
        shadow.allocate(size, align).expect("nearly a third of the heap is free");
    }
    shadow.check_statistics();
    shadow.check_full_reuse();
}

/// Sizes above 2^31 or products above 2^64 wrap, and less is allocated than was asked for.
#[test]
fn sizes_beyond_32_bits_are_exact_and_overflow_is_an_error() -> Result<()> {
    let heap = Heap::new(16 << 30, 0)?;
    let first = heap.allocate(Layout::array::<[u32; 3]>(225_000_000)?)?;
    let second = heap.allocate(Layout::array::<[u32; 3]>(450_000_000)?)?;
    assert_eq!(heap.statistics().live_bytes, 675_000_000 * 12);
    assert!(first + 225_000_000 * 12 <= second || second + 450_000_000 * 12 <= first);

    for len in [MAX_CAPACITY / 12 + 1, u64::MAX / 12 + 1, u64::MAX / 8, u64::MAX] {
        let wanted = u128::from(len) * 12;
        let refused = Layout::array::<[u32; 3]>(len);
        assert_eq!(refused, Err(Error::TooLarge { wanted, limit: MAX_CAPACITY }));
    }
    Ok(())
}

/// A heap of an absurd size is taken, or fails without a word.
#[test]
fn a_heap_of_any_size_works_or_says_why_not() -> Result<()> {
    for capacity in [0, 1, BLOCK_BYTES - 1] {
        let heap = Heap::new(capacity, 0)?;
        assert_eq!(heap.statistics().capacity_bytes, 0);
        assert_eq!(heap.allocate(layout(0)), out_of_memory(0, 0, 0));
    }
    for capacity in [MAX_CAPACITY + 1, 1 << 63, u64::MAX] {
        let wanted = u128::from(capacity);
        let refused = Heap::new(capacity, 0).map(drop);
        assert_eq!(refused, Err(Error::TooLarge { wanted, limit: MAX_CAPACITY }));
        assert_eq!(Heap::new(MIB, 0)?.grow(capacity), refused);
    }
    assert_eq!(Heap::new(MAX_CAPACITY, 0)?.allocate(layout(MAX_CAPACITY)), Ok(0));

    let error = Heap::new(MIB, MIB + 1).unwrap_err();
    assert_eq!(error, Error::ReservedTooLarge { reserved: MIB + 1, capacity: MIB });
    assert!(error.to_string().contains("reserve less or raise the capacity"), "{error}");
    Ok(())
}

/// The statistic counts more than there is, or not all that is used.
#[test]
fn what_is_used_never_exceeds_the_capacity_and_returns_to_zero() {
    let capacity = 64 * MIB;
    let mut random = Random(125);
    let mut shadow = Shadow::new(capacity, MIB);
    for round in 0..100_000 {
        if shadow.allocate(random.below(256 << 10), 16).is_err() {
            shadow.free_near(random.below(capacity));
            shadow.free_near(random.below(capacity));
        }
        if round % 100 == 0 {
            shadow.check_statistics();
        }
    }
    shadow.check_full_reuse();
}

/// No single allocation can have most of a heap.
#[test]
fn one_allocation_can_have_any_size_up_to_the_whole_heap() -> Result<()> {
    let heap_bytes = 256 * MIB;
    let sizes = (0..=28).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]);
    for size in sizes.chain([heap_bytes - (64 << 10)]).filter(|&size| size <= heap_bytes) {
        for align in (0..=21).map(|bits| 1 << bits) {
            let mut shadow = Shadow::new(heap_bytes, 0);
            let offset = shadow.allocate(size, align)?;
            shadow.free(offset);
            shadow.check_full_reuse();
        }
    }
    Ok(())
}

/// And what is left is then told truly.
#[test]
fn a_second_half_and_a_byte_does_not_fit() -> Result<()> {
    let heap = Heap::new(MIB, 0)?;
    let half = MIB / 2 + 1;
    heap.allocate(layout(half))?;
    let left = MIB / 2 - BLOCK_BYTES;
    assert_eq!(heap.allocate(layout(half)), out_of_memory(half, left, MIB));
    heap.allocate(layout(left)).map(drop)
}

/// What a size of zero gets is left open.
#[test]
fn allocations_of_no_bytes_have_offsets_of_their_own_and_are_freed() -> Result<()> {
    let mut shadow = Shadow::new(MIB, 0);
    let first = shadow.allocate(0, 1)?;
    let second = shadow.allocate(0, 1)?;
    let third = shadow.allocate(0, 2 * BLOCK_BYTES)?;
    assert!(first != second && second != third && first != third);
    shadow.free(first);
    shadow.free(first);
    shadow.check_full_reuse();
    Ok(())
}
