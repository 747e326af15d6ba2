//! Threads that share the tasks of short parallel regions.
//!
//! A token of a small model is a few hundred regions of a few microseconds each. Workers therefore
//! spin a while before they sleep, the caller works too, and tasks are claimed one by one, so that
//! a thread that loses its core holds up at most the task that it is in.

mod gate;
mod patience;

use std::{
    any::Any,
    fmt,
    panic::{self, AssertUnwindSafe},
    ptr::NonNull,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicPtr, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
};

use gate::Gate;

/// Some threads, of which the caller of [`run`](Self::run) is one.
pub struct Pool {
    shared: Arc<Shared>,
    /// Held by the one who runs a region.
    running: Mutex<()>,
    workers: Vec<JoinHandle<()>>,
}

/// What the workers see.
struct Shared {
    gate: Gate,
    /// The region of the round: valid while the gate has somebody inside.
    region: AtomicPtr<Region<'static>>,
}

/// Tasks to be done.
struct Region<'a> {
    task: &'a (dyn Fn(usize) + Sync),
    tasks: usize,
    next: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Pool {
    /// A pool of `threads` threads, the caller's included. Where the system has no more threads to
    /// give, there are fewer.
    pub fn new(threads: usize) -> Self {
        let shared =
            Arc::new(Shared { gate: Gate::new(), region: AtomicPtr::new(std::ptr::null_mut()) });
        let spawn = |index: usize| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(format!("pangea-pool-{index}"))
                .spawn(move || work(&shared))
                .ok()
        };
        let workers = (1..threads).map_while(spawn).collect();
        Self { shared, running: Mutex::new(()), workers }
    }

    /// How many threads share the tasks.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task` with each number below `tasks`, and returns when all calls have.
    ///
    /// While the pool is busy, as it is inside a task, the tasks are done by the caller alone.
    ///
    /// # Panics
    ///
    /// With what a task panicked with, after all tasks were tried.
    pub fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let region = Region { task, tasks, next: AtomicUsize::new(0), panic: Mutex::new(None) };
        match self.try_lead() {
            Some(_leading) if tasks > 1 && !self.workers.is_empty() => self.share(&region),
            _ => region.work(),
        }
        let panicked = region.panic.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(payload) = panicked {
            panic::resume_unwind(payload);
        }
    }

    fn try_lead(&self) -> Option<MutexGuard<'_, ()>> {
        match self.running.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Does the region's tasks together with the workers.
    fn share(&self, region: &Region<'_>) {
        let pointer = NonNull::from(region).cast().as_ptr();
        // Relaxed: the gate orders this with the load in `work`.
        self.shared.region.store(pointer, Ordering::Relaxed);
        self.shared.gate.open();
        // Does not unwind: the gate is always shut before the region's lifetime ends.
        region.work();
        self.shared.gate.shut();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.gate.close_for_good();
        for worker in self.workers.drain(..) {
            // A worker catches what its tasks panic with, and has nothing else to panic about.
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

/// What a worker does until the pool is dropped.
fn work(shared: &Shared) {
    let mut round = 0;
    while shared.gate.enter(&mut round) {
        // Relaxed: the gate orders this with the store in `share`.
        let region = shared.region.load(Ordering::Relaxed);
        // SAFETY: this worker is inside the gate, so that `share` stored a region for this round
        // and does not return, keeping it alive, until the worker has left.
        let region = unsafe { &*region };
        region.work();
        shared.gate.leave();
    }
}

impl Region<'_> {
    /// Does tasks until none is left to claim. Does not unwind.
    fn work(&self) {
        loop {
            // Relaxed: only the number matters; the gate orders what the tasks touch.
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.tasks {
                return;
            }
            let call = AssertUnwindSafe(|| (self.task)(index));
            if let Err(payload) = panic::catch_unwind(call) {
                let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
                match *first {
                    None => *first = Some(payload),
                    // Dropping it may panic, and then this would unwind.
                    Some(_) => std::mem::forget(payload),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
