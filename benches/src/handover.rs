//! The bound of all that two nodes do together: handing a cache line to and fro, awake or asleep.

use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU64, Ordering},
};

/// Two words on lines of their own, mapped by two processes: one for each direction.
#[derive(Debug)]
pub(crate) struct Handover<'a> {
    /// Written by the first, read by the second.
    pub(crate) forth: &'a AtomicU64,
    /// Written by the second, read by the first.
    pub(crate) back: &'a AtomicU64,
}

impl Handover<'_> {
    /// The first's side of `count` round trips, the last of which is numbered `last`.
    pub(crate) fn call(&self, last: u64, count: u32) {
        for number in last - u64::from(count) + 1..=last {
            // Release: pairs with the Acquire in `answer`.
            self.forth.store(number, Ordering::Release);
            wait(self.back, number);
        }
    }

    /// The second's side.
    pub(crate) fn answer(&self, last: u64, count: u32) {
        for number in last - u64::from(count) + 1..=last {
            wait(self.forth, number);
            // Release: pairs with the Acquire in `call`.
            self.back.store(number, Ordering::Release);
        }
    }
}

fn wait(word: &AtomicU64, number: u64) {
    // Acquire: pairs with the Release of the other side. Without a deadline, as it is the bound; a
    // job whose other node dies is ended by its launcher.
    while word.load(Ordering::Acquire) != number {
        spin_loop();
    }
}

/// Two words by which two processes put each other to sleep and wake each other.
#[derive(Debug)]
pub(crate) struct Sleepers<'a> {
    /// Written by the first, waited for by the second.
    pub(crate) forth: &'a AtomicU64,
    /// Written by the second, waited for by the first.
    pub(crate) back: &'a AtomicU64,
}

impl Sleepers<'_> {
    /// The first's side of the round trip `number`.
    pub(crate) fn call(&self, number: u64) {
        wake(self.forth, number);
        sleep(self.back, number);
    }

    /// The second's side: blocks until it is called.
    pub(crate) fn await_call(&self, number: u64) {
        sleep(self.forth, number);
    }

    /// And answers.
    pub(crate) fn reply(&self, number: u64) {
        wake(self.back, number);
    }
}

fn wake(word: &AtomicU64, number: u64) {
    // Release: pairs with the Acquire in `sleep`.
    word.store(number, Ordering::Release);
    futex_wake(word);
}

fn sleep(word: &AtomicU64, number: u64) {
    loop {
        // Acquire: pairs with the Release in `wake`.
        let seen = word.load(Ordering::Acquire);
        if seen == number {
            return;
        }
        futex_wait(word, seen);
    }
}

#[cfg(target_os = "linux")]
fn futex_wake(word: &AtomicU64) {
    // SAFETY: the word lives during the call; the kernel uses its address only.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}

#[cfg(target_os = "linux")]
fn futex_wait(word: &AtomicU64, seen: u64) {
    let forever = std::ptr::null::<libc::timespec>();
    // The kernel compares the lower half, which comes first on the machines we have.
    let seen = seen & u64::from(u32::MAX);
    // SAFETY: the word lives during the call; the kernel only reads it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, forever) };
}

#[cfg(target_os = "macos")]
fn futex_wake(word: &AtomicU64) {
    let flags = libc::OS_SYNC_WAKE_BY_ADDRESS_SHARED;
    // SAFETY: the word lives during the call, and is 8 bytes, aligned.
    unsafe { libc::os_sync_wake_by_address_any(word.as_ptr().cast(), 8, flags) };
}

#[cfg(target_os = "macos")]
fn futex_wait(word: &AtomicU64, seen: u64) {
    let flags = libc::OS_SYNC_WAIT_ON_ADDRESS_SHARED;
    // SAFETY: the word lives during the call, and is 8 bytes, aligned.
    unsafe { libc::os_sync_wait_on_address(word.as_ptr().cast(), seen, 8, flags) };
}
