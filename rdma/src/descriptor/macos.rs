//! Flags of sockets that macOS lacks.

use std::{os::fd::RawFd, ptr};

/// macOS says so once for a socket; see `no_signal`.
pub(super) const NO_SIGNAL: libc::c_int = 0;
/// Set for each descriptor after it was received.
pub(super) const CLOSE_ON_EXEC: libc::c_int = 0;

/// Makes writing to a closed socket an error, not a signal: std does so for sockets that it
/// connects, but for neither pairs nor those it accepts.
pub(super) fn no_signal(socket: RawFd) {
    let on: libc::c_int = 1;
    let len = libc::socklen_t::try_from(size_of_val(&on)).expect("a small number");
    let (level, option) = (libc::SOL_SOCKET, libc::SO_NOSIGPIPE);
    // SAFETY: `on` lives during the call; the kernel reads its `len` bytes.
    unsafe { libc::setsockopt(socket, level, option, ptr::from_ref(&on).cast(), len) };
}
