//! Copies from and to memory that other processes may write at the same time.

use std::{hint::black_box, ptr::NonNull};

/// Copies shared memory to `target`.
///
/// The C library does it, through a pointer that the compiler cannot see through: the copy is made
/// by foreign code, for which another process's writes at the same time are not undefined, only of
/// an unknown order.
///
/// # Safety
///
/// `source` must be `target.len()` bytes that stay mapped during the call, and not overlap
/// `target`.
#[inline]
pub unsafe fn copy_out(source: NonNull<u8>, target: &mut [u8]) {
    let memcpy: unsafe extern "C" fn(_, _, _) -> *mut libc::c_void = black_box(libc::memcpy);
    // SAFETY: the caller vouches for `source`; `target` is exclusively ours.
    unsafe { memcpy(target.as_mut_ptr().cast(), source.as_ptr().cast(), target.len()) };
}

/// Copies `source` to shared memory; see [`copy_out`].
///
/// # Safety
///
/// `target` must be `source.len()` bytes that stay mapped during the call, and not overlap
/// `source`.
#[inline]
pub unsafe fn copy_in(source: &[u8], target: NonNull<u8>) {
    let memcpy: unsafe extern "C" fn(_, _, _) -> *mut libc::c_void = black_box(libc::memcpy);
    // SAFETY: the caller vouches for `target`; `source` is borrowed for the call.
    unsafe { memcpy(target.as_ptr().cast(), source.as_ptr().cast(), source.len()) };
}
