//! Waiting for another process: spin for about one round trip, then block.
//!
//! A [`Doorbell`] is two words of shared memory: how many sleep on it, and a count of its rings.
//! Who changes something rings; ringing costs a fence and a load while nobody sleeps.
//!
//! # Memory ordering
//!
//! A waiter counts itself as a sleeper, then looks at what it waits for; a ringer has changed that,
//! then looks for sleepers. Between the two steps of either is a SeqCst fence, so that at least one
//! of them sees the other: no wake-up is lost (`shm/loom.rs` checks it).

#[cfg_attr(all(not(loom), target_os = "linux"), path = "wait/linux.rs")]
#[cfg_attr(all(not(loom), target_os = "macos"), path = "wait/macos.rs")]
#[cfg_attr(loom, path = "wait/loom.rs")]
mod os;

use std::{
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use crate::primitive::{AtomicU32, Ordering, fence, spin_loop};

/// How long a waiter spins: about what it costs to block and be woken.
const SPIN: Duration = Duration::from_micros(20);
/// Looks at what is waited for between two looks at the clock.
const LOOKS_PER_CLOCK: u32 = 64;

/// Bit of the sleepers: one of them listens to something else, and does not look at the word.
const LISTENER: u32 = 1 << 31;

/// Where processes that share memory wake each other.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Doorbell {
    // How many there are, and whether somebody listens.
    sleepers: AtomicU32,
    rings: AtomicU32,
}

impl Default for Doorbell {
    fn default() -> Self {
        Self { sleepers: AtomicU32::new(0), rings: AtomicU32::new(0) }
    }
}

impl Doorbell {
    /// Wakes whoever sleeps here, after what they wait for has been changed. Whether somebody
    /// [listens](Self::listen) for it, who is to be told otherwise.
    #[inline]
    pub fn ring(&self) -> bool {
        // SeqCst: pairs with the fences in `sleep` and `listen`; what was stored before is visible
        // to a sleeper whose count this thread does not see.
        fence(Ordering::SeqCst);
        // Relaxed: the fence orders it.
        let sleepers = self.sleepers.load(Ordering::Relaxed);
        if sleepers & !LISTENER != 0 {
            self.wake();
        }
        sleepers & LISTENER != 0
    }

    /// Takes note that this thread is about to block on something else, by which who rings is to
    /// tell it. It looks at what it waits for after this, and before it blocks. One thread at a
    /// time.
    pub fn listen(&self) {
        // Relaxed: the fence below orders it.
        self.sleepers.fetch_or(LISTENER, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `ring`.
        fence(Ordering::SeqCst);
    }

    /// Ends [`listen`](Self::listen).
    pub fn stop_listening(&self) {
        // Relaxed: a ringer that still sees it makes a call in vain.
        self.sleepers.fetch_and(!LISTENER, Ordering::Relaxed);
    }

    /// How many sleep here, and whether somebody listens.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn sleepers(&self) -> (u32, bool) {
        // Relaxed: a hint.
        let sleepers = self.sleepers.load(Ordering::Relaxed);
        (sleepers & !LISTENER, sleepers & LISTENER != 0)
    }

    /// Wakes whoever sleeps here, without looking whether somebody does.
    #[cold]
    pub fn wake(&self) {
        // Release: pairs with the Acquire in `sleep`; who sees the new count sees what it
        // announces.
        self.rings.fetch_add(1, Ordering::Release);
        os::wake_all(&self.rings);
    }

    /// Waits until `ready`, or until `deadline`; returns whether it is ready.
    pub fn wait(&self, deadline: Instant, ready: &mut dyn FnMut() -> bool) -> bool {
        spin(deadline, ready) || self.sleep(deadline, ready)
    }

    /// Blocks until `ready`, or until `deadline`.
    #[cold]
    pub fn sleep(&self, deadline: Instant, ready: &mut dyn FnMut() -> bool) -> bool {
        // Relaxed: the fence below orders it.
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `ring`.
        fence(Ordering::SeqCst);
        let is_ready = loop {
            // Acquire: pairs with the Release in `wake`. Read before `ready` looks, so that a ring
            // after that look changes the word and the system does not block.
            let rings = self.rings.load(Ordering::Acquire);
            if ready() {
                break true;
            }
            let Some(left) = remaining(deadline) else { break false };
            os::wait(&self.rings, rings, left);
        };
        // Relaxed: a ringer that still counts this thread makes one system call in vain.
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        is_ready
    }
}

/// Looks at `ready` for as long as blocking would cost; where other threads need the only core,
/// once.
fn spin(deadline: Instant, ready: &mut dyn FnMut() -> bool) -> bool {
    // The clock is read only after the first looks: what comes at once is not kept waiting by it.
    let mut end = None;
    loop {
        for _ in 0..LOOKS_PER_CLOCK {
            if ready() {
                return true;
            }
            if cores() < 2 {
                return false;
            }
            spin_loop();
        }
        let now = Instant::now();
        if now >= *end.get_or_insert_with(|| deadline.min(now + SPIN)) {
            return false;
        }
    }
}

/// Cores that this process may use.
pub fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, Into::into))
}

/// Time until `deadline`; `None` once it has come.
fn remaining(deadline: Instant) -> Option<Duration> {
    deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_sleeper_is_woken_by_a_ring() {
        let shared = Arc::new((Doorbell::default(), AtomicU32::new(0)));
        let theirs = shared.clone();
        let sleeper = thread::spawn(move || {
            let deadline = Instant::now() + Duration::from_secs(60);
            // Acquire: pairs with the Release below.
            theirs.0.sleep(deadline, &mut || theirs.1.load(Ordering::Acquire) == 1)
        });
        // Release: pairs with the Acquire above.
        shared.1.store(1, Ordering::Release);
        shared.0.ring();
        assert!(sleeper.join().unwrap());
    }

    #[test]
    fn a_wait_ends_at_its_deadline() {
        let doorbell = Doorbell::default();
        let deadline = Instant::now() + Duration::from_millis(5);
        assert!(!doorbell.wait(deadline, &mut || false));
        assert!(Instant::now() >= deadline);
        assert!(!doorbell.wait(deadline, &mut || false), "a deadline in the past is no error");
    }
}
