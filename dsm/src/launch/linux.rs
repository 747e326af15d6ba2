//! What Linux offers to a launcher.

use std::{io, os::unix::process::CommandExt, process::Command};

/// Makes the system end the program when the thread that starts it ends, as it does when the
/// launcher is killed.
pub(super) fn end_with_parent(command: &mut Command) {
    let request = || {
        // SAFETY: sets an attribute of the calling process; no memory is touched.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: `request` makes one system call, which is allowed between fork and exec.
    unsafe { command.pre_exec(request) };
}
