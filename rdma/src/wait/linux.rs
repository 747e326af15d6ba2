//! Blocking on a word, as Linux does it: futex(2), shared between processes.

use std::{ptr, time::Duration};

use crate::primitive::AtomicU32;

/// Blocks while the word is `expected`, for at most `timeout`; may return early.
pub(super) fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    // A day at most: a timeout too large for the kernel's type only means to look again.
    let seconds = timeout.as_secs().min(86_400);
    let timeout = libc::timespec {
        tv_sec: libc::time_t::try_from(seconds).expect("a day in seconds is a time_t"),
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    };
    // SAFETY: the word and the timeout live during the call; the kernel only reads them.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &raw const timeout,
        )
    };
}

/// Wakes every thread of every process that blocks on the word.
pub(super) fn wake_all(word: &AtomicU32) {
    let none = ptr::null::<libc::timespec>();
    // SAFETY: the word lives during the call; the kernel uses its address only.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX, none) };
}
