//! The gate through which workers enter a parallel region, and behind which they wait for one.
//!
//! The caller opens the gate, works itself, and shuts it when no task is left; then it waits for
//! those who are inside, and for nobody else: a worker that lost its core before it entered delays
//! no one, as a shut gate cannot be entered.
//!
//! # Memory ordering
//!
//! What the caller wrote before [`open`](Gate::open) is visible to a worker after
//! [`enter`](Gate::enter); what the worker wrote before [`leave`](Gate::leave) is visible to the
//! caller after [`shut`](Gate::shut).
//!
//! No wake-up is lost: a worker counts itself as a sleeper and then looks at the state; the caller
//! changes the state and then looks for sleepers. Both have a `SeqCst` fence in between, so that at
//! least one sees the other. A worker that is seen holds the lock until it waits.

use std::sync::PoisonError;

use super::patience::Patience;
use crate::primitive::{AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence};

/// Set while workers may enter.
const OPEN: u64 = 1;
/// Set when workers are to end.
const CLOSED_FOR_GOOD: u64 = 2;
/// One worker inside.
const WORKER: u64 = 4;
/// One round: the upper half of the state counts how often the gate was opened.
const ROUND: u64 = 1 << 32;

/// One caller and any number of workers.
#[derive(Debug)]
pub(super) struct Gate {
    /// Round, workers inside, and the two flags.
    state: AtomicU64,
    /// Workers that sleep or are about to.
    sleepers: AtomicUsize,
    /// Held by a worker from when it counts itself until it sleeps.
    lock: Mutex<()>,
    opened: Condvar,
}

impl Gate {
    /// A shut gate.
    pub(super) fn new() -> Self {
        Self {
            state: AtomicU64::new(0),
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            opened: Condvar::new(),
        }
    }

    /// Lets workers in, once each. The gate is shut, and this is called by one thread at a time.
    pub(super) fn open(&self) {
        self.change(ROUND + OPEN);
    }

    /// Lets nobody in any more, and waits for those inside.
    pub(super) fn shut(&self) {
        // Acquire, here and below: pairs with the Release in `leave`.
        let mut state = self.state.fetch_and(!OPEN, Ordering::Acquire) & !OPEN;
        let mut patience = Patience::new();
        while state % ROUND >= WORKER {
            patience.wait();
            state = self.state.load(Ordering::Acquire);
        }
    }

    /// Ends all workers, now and later. The gate is shut.
    pub(super) fn close_for_good(&self) {
        self.change(CLOSED_FOR_GOOD);
    }

    /// Waits until the gate is open in a round other than `round`, the last that this worker
    /// entered, and enters. False: closed for good.
    pub(super) fn enter(&self, round: &mut u64) -> bool {
        let mut patience = Patience::new();
        loop {
            let state = self.state.load(Ordering::Relaxed);
            if state & CLOSED_FOR_GOOD != 0 {
                return false;
            }
            if is_news(state, *round) {
                // Acquire: pairs with the Release in `change`.
                let entered = self.state.compare_exchange_weak(
                    state,
                    state + WORKER,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                if entered.is_ok() {
                    *round = state / ROUND;
                    return true;
                }
            } else if !patience.wait() {
                self.sleep(*round);
                patience = Patience::new();
            }
        }
    }

    /// A worker that entered is done with the round.
    pub(super) fn leave(&self) {
        // Release: pairs with the Acquire in `shut`.
        self.state.fetch_sub(WORKER, Ordering::Release);
    }

    fn change(&self, by: u64) {
        // Release: pairs with the Acquire in `enter`.
        self.state.fetch_add(by, Ordering::Release);
        // Pairs with the fence in `sleep`.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            // Once the lock is free, whoever was counted waits for the notification.
            drop(self.lock());
            self.opened.notify_all();
        }
    }

    fn sleep(&self, round: u64) {
        let mut guard = self.lock();
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `change`.
        fence(Ordering::SeqCst);
        while !is_news(self.state.load(Ordering::Relaxed), round) {
            guard = self.opened.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // Nothing is behind the lock that a panic could have left half done.
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a worker that last entered `round` has something to do.
fn is_news(state: u64, round: u64) -> bool {
    state & CLOSED_FOR_GOOD != 0 || state & OPEN != 0 && state / ROUND != round
}

#[cfg(all(test, loom))]
mod tests {
    use std::sync::Arc;

    use loom::{cell::UnsafeCell, thread};

    use super::*;

    /// Two numbers behind a gate: the job of the round, and what the workers made of it. loom
    /// reports an access that is not ordered with the others.
    struct Shared {
        gate: Gate,
        job: UnsafeCell<u64>,
        claimed: AtomicUsize,
        result: UnsafeCell<u64>,
    }

    impl Shared {
        /// Does the job, unless another thread has claimed it.
        fn work(&self) {
            if self.claimed.fetch_add(1, Ordering::Relaxed) == 0 {
                // SAFETY: loom fails the test where another access is at the same time.
                let job = self.job.with(|job| unsafe { *job });
                // SAFETY: as above.
                self.result.with_mut(|result| unsafe { *result = job });
            }
        }
    }

    fn check(workers: usize, rounds: u64) {
        let mut model = loom::model::Builder::new();
        // All interleavings are too many; more switches than this find few more faults.
        model.preemption_bound = Some(2);
        model.check(move || {
            let shared = Arc::new(Shared {
                gate: Gate::new(),
                job: UnsafeCell::new(0),
                claimed: AtomicUsize::new(1),
                result: UnsafeCell::new(0),
            });
            let worker = |shared: Arc<Shared>| {
                thread::spawn(move || {
                    let mut round = 0;
                    while shared.gate.enter(&mut round) {
                        shared.work();
                        shared.gate.leave();
                    }
                })
            };
            let workers: Vec<_> = (0..workers).map(|_| worker(shared.clone())).collect();
            for round in 1..=rounds {
                // SAFETY: as above.
                shared.job.with_mut(|job| unsafe { *job = round });
                shared.claimed.store(0, Ordering::Relaxed);
                shared.gate.open();
                shared.work();
                shared.gate.shut();
                // SAFETY: as above.
                assert_eq!(shared.result.with(|result| unsafe { *result }), round);
            }
            shared.gate.close_for_good();
            for worker in workers {
                worker.join().unwrap();
            }
        });
    }

    #[test]
    fn loom_one_worker_sees_each_job_and_ends() {
        check(1, 2);
    }

    #[test]
    fn loom_two_workers_see_a_job_and_end() {
        check(2, 1);
    }
}
