//! Keeping a process on one core, so that its neighbour has the other.

/// Keeps the calling thread, and those it starts, on the core that `index` falls to. Where the
/// system has no such call, or refuses, nothing changes.
#[cfg(target_os = "linux")]
pub(crate) fn pin(index: usize) {
    // SAFETY: all zero is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: sets a bit of `set`; the index is below the number of cores, and so of bits.
    unsafe { libc::CPU_SET(index % pangea::cores(), &mut set) };
    // SAFETY: `set` lives during the call; zero is the calling thread.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
}

/// macOS has no call that keeps a thread on a core.
#[cfg(not(target_os = "linux"))]
pub(crate) fn pin(_index: usize) {}
