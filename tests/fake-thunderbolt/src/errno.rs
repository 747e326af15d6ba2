//! Error numbers, which verbs return or leave in the thread's `errno`.

use std::{ffi::c_int, io, ptr};

/// Why a verb failed: an error number of this system.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Errno(pub(crate) c_int);

/// The result of what a verb does.
pub(crate) type Result<T = ()> = std::result::Result<T, Errno>;

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

unsafe extern "C" {
    #[cfg_attr(target_os = "linux", link_name = "__errno_location")]
    #[cfg_attr(target_os = "macos", link_name = "__error")]
    safe fn errno_location() -> *mut c_int;
}

/// Leaves `errno` for the caller.
pub(crate) fn set(errno: Errno) {
    // SAFETY: the address is that of this thread's own word, valid while the thread lives.
    unsafe { *errno_location() = errno.0 };
}

/// How most verbs answer: zero, or the error's number.
pub(crate) fn number(result: Result) -> c_int {
    result.err().map_or(0, |errno| errno.0)
}

/// How the verbs that make something answer: where it is, or null with `errno` set.
pub(crate) fn pointer<T>(result: Result<*mut T>) -> *mut T {
    result.unwrap_or_else(|errno| {
        set(errno);
        ptr::null_mut()
    })
}
