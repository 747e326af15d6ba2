//! Starting the nodes of a job, and ending them all when one fails.
//!
//! ```no_run
//! use std::process::Command;
//!
//! let commands = (0..4).map(|_| Command::new("./prog"));
//! let job = pangea::launch::Job::start(commands)?;
//! let failed = job.wait()?;
//! # Ok::<(), pangea::Error>(())
//! ```
//!
//! A [`Job`] is made of three parts, which serve a launcher of several hosts one by one: a
//! [`Place`] where the nodes meet, [`Children`] that run them on one host, and a [`Supervision`]
//! that decides when they are to end.

mod children;
mod job;
#[cfg_attr(target_os = "linux", path = "launch/linux.rs")]
#[cfg_attr(target_os = "macos", path = "launch/macos.rs")]
mod os;
mod place;
mod supervision;

use std::ptr;

pub use children::Children;
pub use job::Job;
pub use pangea_rdma::bootstrap::Key;
pub use place::Place;
pub use supervision::{Ending, Event, Processes, Supervision, TERM_GRACE};

/// Whether this process ignores `signal`, as one that was started by nohup(1) does: then a launcher
/// should not listen for it.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: all zero is a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is changed; `action` lives during the call, which fills it.
    let result = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}
