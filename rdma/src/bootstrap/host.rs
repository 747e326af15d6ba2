//! Which host this is: the nodes of one host share memory.

#[cfg_attr(target_os = "linux", path = "host/linux.rs")]
#[cfg_attr(target_os = "macos", path = "host/macos.rs")]
mod os;

use std::ffi::CStr;

/// What every process of this host says, and no other: it changes when the host is booted.
pub(super) fn identity() -> String {
    os::identity().unwrap_or_else(label)
}

/// The name of this host, for people.
pub(super) fn label() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the call writes at most the length that is given; the last byte stays zero.
    let result = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let name = CStr::from_bytes_until_nul(&name).ok().filter(|_| result == 0);
    name.map_or_else(|| "unknown".to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(all(test, not(loom)))]
mod tests {
    #[test]
    fn this_host_is_the_same_whenever_it_is_asked() {
        assert_eq!(super::identity(), super::identity());
        assert!(super::identity().len() > super::label().len().min(30));
    }
}
