//! Starting nodes on this machine, and ending them all when one fails.
//!
//! ```no_run
//! use std::process::Command;
//!
//! let commands = (0..4).map(|_| Command::new("./prog"));
//! let job = pangea::launch::Job::start(commands)?;
//! let ending = job.wait();
//! # Ok::<(), pangea::Error>(())
//! ```

#[cfg_attr(target_os = "linux", path = "launch/linux.rs")]
#[cfg_attr(target_os = "macos", path = "launch/macos.rs")]
mod os;

use std::{
    io,
    os::unix::process::ExitStatusExt,
    process::{Child, Command, ExitStatus},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use pangea_rdma::{
    NodeId,
    bootstrap::local::{Lifelines, Rendezvous},
};

use crate::{Error, Result};

/// How long the other nodes have to find out themselves that one has failed, and to say so.
const GRACE: Duration = Duration::from_millis(1200);
/// How long they have to end after they were told to.
const TERM_GRACE: Duration = Duration::from_millis(800);
/// How long nodes may take to join.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Something that happens to a job.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The process of a node has ended.
    Ended(NodeId),
    /// A signal is to be passed on to all nodes.
    Signal(i32),
}

/// How a node ended.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// Which node.
    pub node: NodeId,
    /// Its exit status.
    pub status: ExitStatus,
}

impl Ending {
    /// The code with which a launcher should exit: the node's, or 128 and the number of the signal
    /// that ended it.
    pub fn code(&self) -> u8 {
        let code = self.status.code().or_else(|| Some(128 + self.status.signal()?));
        u8::try_from(code.unwrap_or(1)).unwrap_or(1)
    }
}

/// The processes of a job, each a node; killed when dropped.
#[derive(Debug)]
pub struct Job {
    // By node; `None` once it has ended.
    children: Vec<Option<Child>>,
    events: Receiver<Event>,
    sender: Sender<Event>,
    // Set when there can be no meeting any more.
    is_off: Arc<AtomicBool>,
    meeting: Option<JoinHandle<Option<Lifelines>>>,
}

impl Job {
    /// Starts a process for each of `commands`, the nodes of one cluster in order. They end with
    /// the calling thread, where the system can see to that (Linux).
    ///
    /// # Errors
    ///
    /// [`Error::Config`] where one cannot be started; the others are ended.
    pub fn start(commands: impl IntoIterator<Item = Command>) -> Result<Self> {
        let commands: Vec<Command> = commands.into_iter().collect();
        let nodes = u16::try_from(commands.len()).unwrap_or(u16::MAX);
        let rendezvous = Rendezvous::new(nodes)?;
        let (sender, events) = mpsc::channel();
        let is_off = Arc::new(AtomicBool::new(false));
        let mut job =
            Self { children: Vec::new(), events, sender, is_off: is_off.clone(), meeting: None };
        for (node, mut command) in NodeId::all(nodes).zip(commands) {
            command.envs(rendezvous.environment(node));
            os::end_with_parent(&mut command);
            let child = command.spawn().map_err(|error| Error::Config {
                field: "program",
                reason: format!("cannot start {}: {error}", command.get_program().display()),
            })?;
            notify(node, child.id(), job.sender.clone())?;
            job.children.push(Some(child));
        }
        job.meeting = Some(thread::spawn(move || {
            let deadline = Instant::now() + JOIN_TIMEOUT;
            // Acquire: pairs with the Release in `call_off`. What goes wrong is seen, and said, by
            // the nodes.
            rendezvous.serve(deadline, &|| is_off.load(Ordering::Acquire)).ok().flatten()
        }));
        Ok(job)
    }

    /// The process of `node`, to take its output; `None` once it has ended.
    pub fn child(&mut self, node: NodeId) -> Option<&mut Child> {
        self.children.get_mut(node.index())?.as_mut()
    }

    /// Where others tell the job of signals.
    pub fn sender(&self) -> Sender<Event> {
        self.sender.clone()
    }

    /// Waits until all nodes have ended, and returns how the first failed, if one did. One that
    /// failed because it had lost another is not the first.
    ///
    /// When one fails, the others have a moment to notice and to say so; then they are told to end,
    /// and then killed. All are gone within 2 seconds.
    pub fn wait(mut self) -> Option<Ending> {
        let mut failed = Vec::new();
        while self.is_running() && failed.is_empty() {
            let event = self.events.recv();
            self.take_in(event.ok()?, &mut failed);
        }
        self.outwait(GRACE, &mut failed);
        self.signal_all(libc::SIGTERM);
        // What fails from now on was made to.
        self.outwait(TERM_GRACE, &mut Vec::new());
        self.first_cause(&failed)
    }

    fn is_running(&self) -> bool {
        self.children.iter().any(Option::is_some)
    }

    /// Waits for the nodes that are left, for at most `time`.
    fn outwait(&mut self, time: Duration, failed: &mut Vec<Ending>) {
        let deadline = Instant::now() + time;
        while self.is_running() {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(event) => self.take_in(event, failed),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn take_in(&mut self, event: Event, failed: &mut Vec<Ending>) {
        match event {
            Event::Signal(signal) => self.signal_all(signal),
            Event::Ended(node) => {
                // A node that ends without having joined leaves the others waiting for it in vain.
                self.call_off();
                let child = self.children[node.index()].take();
                let Some(Ok(status)) = child.map(|mut child| child.wait()) else { return };
                if !status.success() {
                    failed.push(Ending { node, status });
                }
            }
        }
    }

    /// The first of `failed` that had not lost another of them.
    fn first_cause(&mut self, failed: &[Ending]) -> Option<Ending> {
        let first = *failed.first()?;
        let Some(Ok(Some(lifelines))) = self.meeting.take().map(JoinHandle::join) else {
            return Some(first);
        };
        let has_failed = |node: &NodeId| failed.iter().any(|ending| ending.node == *node);
        let mut causes = failed.iter();
        let cause = causes.find(|ending| !lifelines.losses(ending.node).iter().any(has_failed));
        Some(cause.copied().unwrap_or(first))
    }

    fn call_off(&self) {
        // Release: pairs with the Acquire in `start`.
        self.is_off.store(true, Ordering::Release);
    }

    /// Sends `signal` to every node that has not ended.
    fn signal_all(&self, signal: i32) {
        for child in self.children.iter().flatten() {
            let Ok(process) = libc::pid_t::try_from(child.id()) else { continue };
            // SAFETY: a child that was not waited for yet keeps its number, so that no stranger
            // gets the signal; no memory is touched.
            unsafe { libc::kill(process, signal) };
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.call_off();
        self.signal_all(libc::SIGKILL);
        for child in self.children.iter_mut().flatten() {
            // A killed process ends at once.
            _ = child.wait();
        }
        if let Some(meeting) = self.meeting.take() {
            // It looks every few milliseconds whether it is off.
            _ = meeting.join();
        }
    }
}

/// Sends an event when `process`, the one of `node`, has ended. It is not waited for: its number
/// stays taken until the launcher does.
fn notify(node: NodeId, process: u32, events: Sender<Event>) -> Result {
    let watch = move || {
        // SAFETY: all zero is a valid `siginfo_t`.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let options = libc::WEXITED | libc::WNOWAIT;
        // SAFETY: `info` lives during the call, which fills it.
        while unsafe { libc::waitid(libc::P_PID, process, &raw mut info, options) } != 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
        // A job that was dropped does not listen any more.
        _ = events.send(Event::Ended(node));
    };
    let thread = thread::Builder::new().name(format!("pangea {node}")).spawn(watch);
    thread.map(drop).map_err(Error::os("starting a thread"))
}
