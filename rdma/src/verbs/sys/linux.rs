//! The verbs of Linux: rdma-core.

/// The library's file, as the loader finds it.
pub const LIBRARY: &str = "libibverbs.so.1";

/// What to do where the library is missing.
pub const LIBRARY_REMEDY: &str = "install rdma-core (libibverbs1 and ibverbs-providers)";

/// The likely cause of an error number, and the remedy.
pub fn remedy(errno: i32) -> Option<&'static str> {
    Some(match errno {
        libc::ENOMEM => "memory that may be locked is used up: raise `ulimit -l`",
        libc::EPERM | libc::EACCES => "no permission for /dev/infiniband: join the group rdma",
        libc::ENOSYS | libc::ENODEV => "the kernel's RDMA modules are not loaded: load ib_uverbs",
        libc::EINVAL => {
            "an address or a parameter that the adapter does not take: compare `ibv_devinfo -v` \
             of both hosts"
        }
        libc::EFAULT => "the memory is not mapped, or not writable",
        libc::EBUSY => "the adapter's resources are in use by another program",
        libc::EOPNOTSUPP => "the adapter does not support it",
        libc::ETIMEDOUT => "the peer's address is not resolved: is the cable in, and the peer up?",
        libc::EHOSTUNREACH | libc::ENETUNREACH => {
            "no route to the peer from this device: choose the device on the peer's network"
        }
        _ => return None,
    })
}
