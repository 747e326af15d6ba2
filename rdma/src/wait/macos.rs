//! Blocking on a word, as macOS 14.4 does it: os_sync_wait_on_address, shared between processes.

use std::time::Duration;

use crate::primitive::AtomicU32;

/// Bytes of the word.
const SIZE: usize = 4;

/// Blocks while the word is `expected`, for at most `timeout`; may return early.
pub(super) fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX).max(1);
    // SAFETY: the word lives during the call, and is `SIZE` bytes, aligned.
    unsafe {
        libc::os_sync_wait_on_address_with_timeout(
            word.as_ptr().cast(),
            u64::from(expected),
            SIZE,
            libc::OS_SYNC_WAIT_ON_ADDRESS_SHARED,
            libc::OS_CLOCK_MACH_ABSOLUTE_TIME,
            nanoseconds,
        )
    };
}

/// Wakes every thread of every process that blocks on the word.
pub(super) fn wake_all(word: &AtomicU32) {
    let flags = libc::OS_SYNC_WAKE_BY_ADDRESS_SHARED;
    // SAFETY: the word lives during the call, and is `SIZE` bytes, aligned.
    unsafe { libc::os_sync_wake_by_address_all(word.as_ptr().cast(), SIZE, flags) };
}
