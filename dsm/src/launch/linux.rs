//! What Linux offers to a launcher.

use std::{
    io,
    os::unix::process::{CommandExt, parent_id},
    process::{self, Command},
};

/// Makes the system end the program when the thread that starts it ends, as it does when the
/// launcher is killed.
pub(super) fn end_with_parent(command: &mut Command) {
    let launcher = process::id();
    let request = move || {
        // SAFETY: sets an attribute of the calling process; no memory is touched.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // A launcher that was killed before the request was made sends no signal any more.
        if parent_id() != launcher {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    };
    // SAFETY: `request` makes system calls, which are allowed between fork and exec, and allocates
    // nothing.
    unsafe { command.pre_exec(request) };
}
