//! Blocking on a word, as a model: look, and let the others run.

use std::time::Duration;

use crate::primitive::{AtomicU32, Ordering};

/// Blocks while the word is `expected`: a lost wake-up is a model that never ends.
pub(super) fn wait(word: &AtomicU32, expected: u32, _timeout: Duration) {
    // Relaxed: the caller looks again, with Acquire.
    while word.load(Ordering::Relaxed) == expected {
        loom::thread::yield_now();
    }
}

/// Changing the word is all that a waiter of the model needs.
pub(super) fn wake_all(_word: &AtomicU32) {}
