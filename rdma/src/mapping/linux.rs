//! Shared memory as Linux has it: a sealed memfd.

use std::{
    ops::Range,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr::NonNull,
};

use crate::{Error, Mapping, Result, primitive::Ordering};

/// No process that holds the descriptor can take pages away under another's feet.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

pub(super) fn create(len: usize) -> Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string; the call makes a descriptor and touches no memory.
    let descriptor = unsafe { libc::memfd_create(c"pangea".as_ptr(), flags) };
    if descriptor < 0 {
        return Err(Error::last_os("memfd_create"));
    }
    // SAFETY: `memfd_create` has just made it, and nobody else knows of it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    super::set_len(&descriptor, len)?;
    // SAFETY: the descriptor is open; no memory is touched.
    if unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_ADD_SEALS, SEALS) } != 0 {
        return Err(Error::last_os("sealing of shared memory"));
    }
    Ok(descriptor)
}

/// Refuses an object that could still shrink: touching it afterwards would be a bus error.
pub(super) fn check_sealed(descriptor: &OwnedFd) -> Result {
    // SAFETY: the descriptor is open; no memory is touched.
    let seals = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_GET_SEALS) };
    if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
        return Err(Error::protocol("a peer's memory object is not sealed against shrinking"));
    }
    Ok(())
}

pub(super) fn discard(descriptor: &OwnedFd, _address: NonNull<u8>, range: Range<u64>) -> Result {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let offset = |at: u64| libc::off_t::try_from(at).expect("an offset in a memory object");
    let (start, len) = (offset(range.start), offset(range.end - range.start));
    // SAFETY: the descriptor is open; pages are emptied, and stay mapped.
    if unsafe { libc::fallocate(descriptor.as_raw_fd(), mode, start, len) } != 0 {
        return Err(Error::last_os("fallocate to give memory back"));
    }
    Ok(())
}

/// Backs every large page that the range touches, and that lies inside `mapping`, by one. Errors
/// are ignored: where there are no large pages, small ones serve.
///
/// The kernel does not make large pages of shared memory by itself, nor of an empty range: one
/// small page of each must be there, and the rest then costs its zeroing only.
pub(super) fn coalesce(mapping: &Mapping, range: Range<u64>) {
    const LARGE: u64 = 2 << 20;
    let base = mapping.as_ptr().as_ptr().addr() as u64;
    let first = (base + range.start) / LARGE * LARGE;
    let last = (base + range.end).next_multiple_of(LARGE);
    for large in (first..last).step_by(usize::try_from(LARGE).expect("a page is small")) {
        let Some(offset) = large.checked_sub(base) else { continue };
        let (Ok(word), Ok(at)) = (mapping.word(offset), mapping.range(offset, LARGE)) else {
            continue;
        };
        // Relaxed: adds nothing; the page is there afterwards.
        word.fetch_add(0, Ordering::Relaxed);
        let len = usize::try_from(LARGE).expect("a page is small");
        // SAFETY: the range is inside the mapping (checked by `range`), and its bytes stay.
        unsafe { libc::madvise(at.as_ptr().cast(), len, libc::MADV_COLLAPSE) };
    }
}
