//! Flags of sockets that macOS lacks.

/// std has set the same for the socket (`SO_NOSIGPIPE`) when it made it.
pub(super) const NO_SIGNAL: libc::c_int = 0;
/// Set for each descriptor after it was received.
pub(super) const CLOSE_ON_EXEC: libc::c_int = 0;
