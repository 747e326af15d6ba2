//! Several threads at once, each freeing what another allocated.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use pangea_alloc::{Heap, Layout};

use crate::random::Random;

const CAPACITY: u64 = 4 << 20;
const GRANULE: u64 = 8;
const THREADS: u64 = 4;
const ROUNDS: u64 = 20_000;

/// Who has what: a flag for each granule of the heap.
struct Claims(Vec<AtomicBool>);

impl Claims {
    fn new() -> Self {
        Self((0..CAPACITY / GRANULE).map(|_| AtomicBool::new(false)).collect())
    }

    /// Turns the flags of a range over; they must all have been `!taken`.
    fn set(&self, offset: u64, size: u64, taken: bool) {
        let first = usize::try_from(offset / GRANULE).unwrap();
        let granules = usize::try_from(size.div_ceil(GRANULE)).unwrap();
        for flag in &self.0[first..first + granules] {
            // Relaxed: each flag is looked at alone, and the heap's lock orders its owners.
            assert_eq!(flag.swap(taken, Ordering::Relaxed), !taken, "one owner at a time");
        }
    }
}

#[test]
fn threads_share_a_heap_and_free_what_others_allocated() {
    let heap = Heap::new(CAPACITY, 0).unwrap();
    let claims = Claims::new();
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel()).unzip();
    thread::scope(|scope| {
        for (number, receiver) in (0..).zip(receivers) {
            let next = senders[(number + 1) % senders.len()].clone();
            let (heap, claims) = (&heap, &claims);
            scope.spawn(move || churn(heap, claims, number as u64, next, &receiver));
        }
        drop(senders);
    });
    let now = heap.statistics();
    assert_eq!((now.live_allocations, now.live_bytes, now.held_bytes), (0, 0, 0));
    assert_eq!(now.largest_free_bytes, CAPACITY);
}

/// Allocates for the next thread and frees for the one before, until that has ended.
fn churn(
    heap: &Heap,
    claims: &Claims,
    seed: u64,
    next: Sender<(u64, u64)>,
    before: &Receiver<(u64, u64)>,
) {
    let free = |(offset, size)| {
        claims.set(offset, size, false);
        heap.free(offset).unwrap();
    };
    let mut random = Random(seed);
    for _ in 0..ROUNDS {
        let size = 1 + random.magnitude(16);
        if let Ok(offset) = heap.allocate(Layout::new(size, GRANULE).unwrap()) {
            claims.set(offset, size, true);
            next.send((offset, size)).unwrap();
        }
        before.try_iter().take(2).for_each(free);
    }
    drop(next);
    before.iter().for_each(free);
}
