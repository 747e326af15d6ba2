//! Flags of sockets that Linux has.

use std::os::fd::RawFd;

/// A closed socket is an error, not a signal.
pub(super) const NO_SIGNAL: libc::c_int = libc::MSG_NOSIGNAL;
/// A received descriptor is not inherited by programs that this one starts.
pub(super) const CLOSE_ON_EXEC: libc::c_int = libc::MSG_CMSG_CLOEXEC;

/// Linux says so with each message.
pub(super) fn no_signal(_socket: RawFd) {}
