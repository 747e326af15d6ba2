//! Flags of sockets that Linux has.

/// A closed socket is an error, not a signal.
pub(super) const NO_SIGNAL: libc::c_int = libc::MSG_NOSIGNAL;
/// A received descriptor is not inherited by programs that this one starts.
pub(super) const CLOSE_ON_EXEC: libc::c_int = libc::MSG_CMSG_CLOEXEC;
