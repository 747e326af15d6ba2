//! Behaviour of the table of what was fetched.

use std::cell::RefCell;

use super::*;

const HOME: NodeId = NodeId::new(3);

fn wanted(bytes: Range<u64>, pins: bool) -> Wanted {
    Wanted { home: HOME, bytes, pins }
}

/// Asks for what is not to push anything out.
fn ask(cache: &Cache, bytes: Range<u64>, pins: bool) -> Plan {
    cache.ask(&wanted(bytes, pins), &|place, _| panic!("{place:?} is given up")).unwrap()
}

/// Asks for, and fetches, `bytes`; returns what was given up.
fn fetch(cache: &Cache, bytes: Range<u64>, pins: bool) -> Vec<u64> {
    let discarded = RefCell::new(Vec::new());
    let plan = cache.ask(&wanted(bytes, pins), &|(_, start), _| discarded.borrow_mut().push(start));
    cache.settle(HOME, &plan.unwrap().fetch, true);
    discarded.into_inner()
}

/// One run.
fn runs(run: Range<u64>) -> Vec<Range<u64>> {
    Vec::from_iter([run])
}

#[test]
fn pieces_are_what_a_range_has_in_each_block() {
    let all: Vec<Range<u64>> = pieces(&(100..2 * BLOCK + 1)).collect();
    assert_eq!(all, [100..BLOCK, BLOCK..2 * BLOCK, 2 * BLOCK..2 * BLOCK + 1]);
    assert_eq!(pieces(&(7..7)).count(), 0);
    assert_eq!(whole_pieces(&(5..6), &(0..BLOCK)), 0..BLOCK);
    assert_eq!(whole_pieces(&(BLOCK..BLOCK + 1), &(9..3 * BLOCK)), BLOCK..2 * BLOCK);
}

#[test]
fn what_is_there_is_not_fetched_again() {
    let cache = Cache::new(10 * BLOCK);
    let plan = ask(&cache, 0..3 * BLOCK, true);
    assert_eq!(plan.fetch, runs(0..3 * BLOCK), "in one run");
    let other = ask(&cache, 2 * BLOCK..4 * BLOCK, true);
    assert_eq!(other.fetch, runs(3 * BLOCK..4 * BLOCK));
    let awaited = other.awaited[0];
    assert_eq!(cache.is_there(awaited), Some(false));
    cache.settle(HOME, &plan.fetch, true);
    assert_eq!(cache.is_there(awaited), Some(true));
    assert!(ask(&cache, 0..3 * BLOCK, false).fetch.is_empty());
}

#[test]
fn a_fetch_that_fails_is_seen_by_who_awaits_it() {
    let cache = Cache::new(10 * BLOCK);
    let plan = ask(&cache, 0..BLOCK, true);
    let awaited = ask(&cache, 0..BLOCK, true).awaited[0];
    cache.settle(HOME, &plan.fetch, false);
    assert_eq!(cache.is_there(awaited), None);
    // Somebody else's attempt is another piece.
    assert_eq!(ask(&cache, 0..BLOCK, true).fetch, runs(0..BLOCK));
    assert_eq!(cache.is_there(awaited), None);
    assert_eq!(cache.bytes(), BLOCK);
}

#[test]
fn the_least_recently_asked_for_goes_first() {
    let cache = Cache::new(3 * BLOCK);
    for block in 0..3 {
        assert!(fetch(&cache, block * BLOCK..(block + 1) * BLOCK, false).is_empty());
    }
    ask(&cache, 0..BLOCK, false);
    assert_eq!(fetch(&cache, 5 * BLOCK..6 * BLOCK, false), [BLOCK]);
    assert_eq!(fetch(&cache, 6 * BLOCK..7 * BLOCK, false), [2 * BLOCK]);
    assert_eq!(fetch(&cache, 7 * BLOCK..8 * BLOCK, false), [0]);
    assert_eq!(cache.bytes(), 3 * BLOCK);
}

#[test]
fn what_may_be_borrowed_stays() {
    let cache = Cache::new(2 * BLOCK);
    fetch(&cache, 0..BLOCK, true);
    fetch(&cache, BLOCK..2 * BLOCK, false);
    assert_eq!(fetch(&cache, 2 * BLOCK..3 * BLOCK, true), [BLOCK]);
    let error = cache.ask(&wanted(3 * BLOCK..4 * BLOCK, false), &|_, _| {}).unwrap_err();
    assert!(matches!(error, Error::CacheFull { wanted: BLOCK, .. }), "{error}");
    cache.unpin(HOME, &(0..BLOCK));
    assert_eq!(fetch(&cache, 3 * BLOCK..4 * BLOCK, false), [0]);
}

#[test]
fn what_is_asked_for_together_does_not_push_itself_out() {
    let cache = Cache::new(2 * BLOCK);
    fetch(&cache, 0..BLOCK, false);
    fetch(&cache, 5 * BLOCK..6 * BLOCK, false);
    assert_eq!(fetch(&cache, 0..2 * BLOCK, false), [5 * BLOCK]);
    let error = cache.ask(&wanted(0..3 * BLOCK, false), &|_, _| {}).unwrap_err();
    assert!(matches!(error, Error::CacheFull { .. }), "{error}");
    assert_eq!(cache.bytes(), 2 * BLOCK);
}
