//! The verbs of macOS 26.2 and later: RDMA over Thunderbolt 5.

/// The library's name in the loader's cache; there is no such file.
pub const LIBRARY: &str = "librdma.dylib";

/// What to do where the library is missing.
pub const LIBRARY_REMEDY: &str = "RDMA over Thunderbolt needs macOS 26.2 or later";

/// The likely cause of an error number, and the remedy.
pub fn remedy(errno: i32) -> Option<&'static str> {
    Some(match errno {
        libc::ENOENT => "a stale error number: the peer's process ended while connecting",
        libc::ENOMEM => "more frames than the queue takes, or the driver's memory is used up",
        libc::EFAULT => "the driver's registrations of this boot are used up: restart this Mac",
        libc::EBUSY => {
            "the device's 10 queue pairs are taken, some perhaps by programs that were killed: end \
             them, or restart this Mac"
        }
        libc::EINVAL => {
            "an empty or wrong address: give the Thunderbolt interface an IPv4 address, and take \
             it out of the Thunderbolt Bridge"
        }
        libc::ENOTSUP | libc::EOPNOTSUPP => {
            "Thunderbolt supports unreliable connections (UC) with send and receive only"
        }
        libc::ETIMEDOUT => {
            "the peer's address is not resolved: is the cable in, and RDMA enabled on both Macs?"
        }
        libc::EHOSTUNREACH => "no route to the peer: its cable is in another port",
        libc::ENODATA => "the path to the peer is forgotten: connect both ends anew",
        _ => return None,
    })
}
