//! Telling the processor what will be written, where it has an instruction for that.

/// Starts to bring the cache line of `place` here for writing, so that it is there when it is
/// written. Who reads it meanwhile takes it away again.
#[inline]
pub(crate) fn prefetch_for_write<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which accesses nothing, never faults, and does nothing where it is unknown.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint, which accesses nothing and never faults.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) place, options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = place;
}
