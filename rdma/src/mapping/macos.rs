//! Shared memory as macOS has it: a named object that loses its name at once.

use std::{
    ffi::CString,
    io,
    ops::Range,
    os::fd::{FromRawFd, OwnedFd},
    process,
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{Error, Mapping, Result};

/// Makes an object, sizes it by the only `ftruncate` that macOS allows, and unlinks it.
pub(super) fn create(len: usize) -> Result<OwnedFd> {
    let (name, descriptor) = loop {
        let name = next_name();
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        // SAFETY: `name` is a C string that lives during the call.
        let descriptor = unsafe { libc::shm_open(name.as_ptr(), flags, 0o600) };
        if descriptor >= 0 {
            break (name, descriptor);
        }
        let error = io::Error::last_os_error();
        // A process that had this number was killed between its two calls: the next name is free.
        if error.kind() != io::ErrorKind::AlreadyExists {
            return Err(Error::os("shm_open")(error));
        }
    };
    // SAFETY: `shm_open` has just made it, and nobody else knows of it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // SAFETY: as for `shm_open`.
    if unsafe { libc::shm_unlink(name.as_ptr()) } != 0 {
        return Err(Error::last_os("shm_unlink"));
    }
    super::set_len(&descriptor, len)?;
    Ok(descriptor)
}

/// A name of at most 31 bytes (macOS's limit) with the longest numbers: 7 + 10 + 1 + 10.
fn next_name() -> CString {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: the number need only differ from the others of this process.
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    CString::new(format!("/pangea{}.{number}", process::id())).expect("no zero byte")
}

/// macOS refuses a second `ftruncate`, which is as good as a seal.
pub(super) fn check_sealed(_descriptor: &OwnedFd) -> Result {
    Ok(())
}

/// macOS has no holes in shared memory: the pages are zeroed, and stay.
pub(super) fn discard(_descriptor: &OwnedFd, address: NonNull<u8>, range: Range<u64>) -> Result {
    let len = usize::try_from(range.end - range.start).expect("a range of a mapping");
    // SAFETY: the range is mapped (callers pass a range of a mapping).
    unsafe { libc::memset(address.as_ptr().cast(), 0, len) };
    Ok(())
}

/// Pages of 16 KiB are the largest that macOS gives.
pub(super) fn coalesce(_mapping: &Mapping, _range: Range<u64>) {}
