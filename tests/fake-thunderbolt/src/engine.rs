//! What an adapter does by itself: a thread that moves frames while the program sleeps.
//!
//! A program that polls needs none of it: its own calls move the frames. One that waits on a
//! completion channel has armed a completion queue; while any is armed, the engine sleeps on the
//! adapter's doorbell and works when it is rung. So nothing calls the system while both ends poll.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{adapter::Adapter, queue_pair::QueuePair, settings::Faults, shared::Shared};

/// How long the engine sleeps at most.
const REST: Duration = Duration::from_secs(3600);
/// How often it looks whether a stall has ended, where there are any: no doorbell tells.
const STALL_REST: Duration = Duration::from_millis(2);

/// What the engine looks after: the queue pairs of a device.
#[derive(Debug)]
pub(crate) struct Watch {
    adapter: Arc<Shared<Adapter>>,
    queue_pairs: Mutex<Vec<Arc<QueuePair>>>,
    // Completion queues that are armed.
    armed: Mutex<usize>,
    changed: Condvar,
    is_over: AtomicBool,
}

impl Watch {
    pub(crate) fn new(adapter: Arc<Shared<Adapter>>) -> Self {
        let (queue_pairs, armed, changed, is_over) = Default::default();
        Self { adapter, queue_pairs, armed, changed, is_over }
    }

    pub(crate) fn add(&self, queue_pair: &Arc<QueuePair>) {
        self.queue_pairs().push(queue_pair.clone());
    }

    /// Forgets the queue pair; the engine does not use it any more once this returns.
    pub(crate) fn remove(&self, queue_pair: &Arc<QueuePair>) {
        self.queue_pairs().retain(|other| !Arc::ptr_eq(other, queue_pair));
    }

    /// Counts an armed completion queue.
    pub(crate) fn arm(&self) {
        *self.armed() += 1;
        self.changed.notify_one();
    }

    /// Counts one armed completion queue less.
    pub(crate) fn disarm(&self) {
        *self.armed() -= 1;
    }

    fn run(&self, rest: Duration) {
        while self.await_work() {
            let deadline = Instant::now() + rest;
            self.adapter.doorbell.sleep(deadline, &mut || {
                for queue_pair in self.queue_pairs().iter() {
                    queue_pair.advance();
                }
                *self.armed() == 0 || self.is_over()
            });
        }
    }

    /// Waits until a completion queue is armed; `false` once all is over.
    fn await_work(&self) -> bool {
        let mut armed = self.armed();
        while *armed == 0 && !self.is_over() {
            armed = self.changed.wait(armed).unwrap_or_else(PoisonError::into_inner);
        }
        !self.is_over()
    }

    fn end(&self) {
        {
            let _armed = self.armed();
            // Relaxed: the lock orders it for `await_work`, the doorbell for a sleeper.
            self.is_over.store(true, Ordering::Relaxed);
            self.changed.notify_one();
        }
        self.adapter.doorbell.wake();
    }

    fn is_over(&self) -> bool {
        // Relaxed: see `end`.
        self.is_over.load(Ordering::Relaxed)
    }

    fn queue_pairs(&self) -> MutexGuard<'_, Vec<Arc<QueuePair>>> {
        self.queue_pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn armed(&self) -> MutexGuard<'_, usize> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread, until dropped.
#[derive(Debug)]
pub(crate) struct Engine {
    watch: Arc<Watch>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    pub(crate) fn start(watch: Arc<Watch>, faults: &Faults) -> Self {
        let rest = if faults.stall.is_zero() { REST } else { STALL_REST };
        let ours = watch.clone();
        let thread = thread::spawn(move || ours.run(rest));
        Self { watch, thread: Some(thread) }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.watch.end();
        let thread = self.thread.take().expect("an engine is stopped once");
        // It holds no lock that could be poisoned; a panic of its has been printed.
        _ = thread.join();
    }
}
