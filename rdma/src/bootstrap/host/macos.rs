//! The identity of a Mac.

use std::{ffi::CStr, ptr};

/// The boot session: a UUID that is new whenever the Mac starts.
pub(super) fn identity() -> Option<String> {
    let mut text = [0_u8; 64];
    let mut len = text.len() - 1;
    let name = c"kern.bootsessionuuid";
    // SAFETY: the call writes at most `len` bytes, which leaves the last one zero.
    let result = unsafe {
        libc::sysctlbyname(
            name.as_ptr(),
            text.as_mut_ptr().cast(),
            &raw mut len,
            ptr::null_mut(),
            0,
        )
    };
    let text = CStr::from_bytes_until_nul(&text).ok().filter(|_| result == 0)?;
    Some(text.to_string_lossy().into_owned()).filter(|text| !text.is_empty())
}
