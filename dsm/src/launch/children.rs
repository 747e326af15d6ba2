//! The nodes that run on this host, each a child of this process.

use std::{
    io,
    os::unix::process::ExitStatusExt,
    process::{Child, ChildStderr, ChildStdout, Command, ExitStatus},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::Sender},
    thread,
};

use pangea_rdma::NodeId;

use super::{Ending, Event, Processes, os};
use crate::{Error, Result};

/// Nodes that run on this host; killed when dropped.
#[derive(Debug, Default)]
pub struct Children {
    processes: Vec<Process>,
}

/// A node that was started.
#[derive(Debug)]
struct Process {
    node: NodeId,
    child: Running,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

/// A process; `None` once it has ended and was waited for. Until then its number is its own, so
/// that no stranger gets a signal that is sent under this lock.
#[derive(Clone, Debug)]
struct Running(Arc<Mutex<Option<Child>>>);

impl Children {
    /// Starts `command` as `node`. Its end is told to `events`. It ends with the calling thread,
    /// where the system can see to that (Linux).
    ///
    /// # Errors
    ///
    /// [`Error::Config`] where it cannot be started.
    pub fn start(&mut self, node: NodeId, mut command: Command, events: Sender<Event>) -> Result {
        os::end_with_parent(&mut command);
        let mut child = command.spawn().map_err(|error| Error::Config {
            field: "program",
            reason: format!("cannot start {}: {error}", command.get_program().display()),
        })?;
        let (number, stdout, stderr) = (child.id(), child.stdout.take(), child.stderr.take());
        let child = Running(Arc::new(Mutex::new(Some(child))));
        self.processes.push(Process { node, child: child.clone(), stdout, stderr });
        let watch = move || {
            await_end(number);
            // Nobody listens to nodes that are being dropped.
            _ = events.send(Event::Ended(Ending { node, status: child.wait() }));
        };
        let thread = thread::Builder::new().name(format!("pangea {node}")).spawn(watch);
        thread.map(drop).map_err(Error::os("starting a thread"))
    }

    /// The number of the process of `node`; `None` once it has ended.
    pub fn process(&self, node: NodeId) -> Option<u32> {
        let process = self.processes.iter().find(|process| process.node == node)?;
        Some(process.child.lock().as_ref()?.id())
    }

    /// What `node` prints, if it was started with a pipe and nobody has taken it yet.
    pub fn take_stdout(&mut self, node: NodeId) -> Option<ChildStdout> {
        self.find(node)?.stdout.take()
    }

    /// What `node` prints of its errors, likewise.
    pub fn take_stderr(&mut self, node: NodeId) -> Option<ChildStderr> {
        self.find(node)?.stderr.take()
    }

    fn find(&mut self, node: NodeId) -> Option<&mut Process> {
        self.processes.iter_mut().find(|process| process.node == node)
    }
}

impl Processes for Children {
    fn signal(&self, signal: i32) {
        self.processes.iter().for_each(|process| process.child.signal(signal));
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        for process in &self.processes {
            // A killed process ends at once.
            process.child.wait();
        }
    }
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        // A child is whole whatever panicked beside it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, signal: i32) {
        let running = self.lock();
        let number = running.as_ref().and_then(|child| libc::pid_t::try_from(child.id()).ok());
        let Some(number) = number else { return };
        // SAFETY: a child that was not waited for yet keeps its number, so that no stranger gets
        // the signal; the lock keeps it so. No memory is touched.
        unsafe { libc::kill(number, signal) };
    }

    /// How it ended, to the first who asks.
    fn wait(&self) -> ExitStatus {
        // Locked all the while: whoever comes second finds that nothing is left.
        let mut running = self.lock();
        let status = running.take().and_then(|mut child| child.wait().ok());
        // A status that somebody else has taken is none of a success.
        status.unwrap_or(ExitStatus::from_raw(1 << 8))
    }
}

/// Waits until a child has ended, without taking its status: its number stays taken.
fn await_end(number: u32) {
    // SAFETY: all zero is a valid `siginfo_t`.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: `info` lives during the call, which fills it.
    while unsafe { libc::waitid(libc::P_PID, number, &raw mut info, options) } != 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}
