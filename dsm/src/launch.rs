//! Starting nodes on this machine, and ending them all when one fails.
//!
//! ```no_run
//! use std::process::Command;
//!
//! let commands = (0..4).map(|_| Command::new("./prog"));
//! let job = pangea::launch::Job::start(commands)?;
//! let failed = job.wait()?;
//! # Ok::<(), pangea::Error>(())
//! ```

#[cfg_attr(target_os = "linux", path = "launch/linux.rs")]
#[cfg_attr(target_os = "macos", path = "launch/macos.rs")]
mod os;

use std::{
    io,
    os::unix::process::ExitStatusExt,
    process::{Child, ChildStderr, ChildStdout, Command, ExitStatus},
    ptr,
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
const GRACE: Duration = Duration::from_millis(2000);
/// How long they have to end after they were told to.
const TERM_GRACE: Duration = Duration::from_millis(800);
/// A second signal within this time kills.
const INSIST: Duration = Duration::from_secs(5);
/// How long nodes may take to join.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Something that happens to a job.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The process of a node has ended.
    Ended(NodeId),
    /// A signal is to be passed on to all nodes.
    Signal(i32),
}

/// Whether this process ignores `signal`, as one that was started by nohup(1) does: then a launcher
/// should not listen for it.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: all zero is a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is changed; `action` lives during the call, which fills it.
    let result = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Passes signals on to the nodes of a job.
#[derive(Clone, Debug)]
pub struct Signals(Sender<Event>);

impl Signals {
    /// Sends `signal` to every node, soon. A job that has ended needs none.
    pub fn send(&self, signal: i32) {
        _ = self.0.send(Event::Signal(signal));
    }
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
    // When a signal was last passed on.
    last_signal: Option<Instant>,
    // Set when there can be no meeting any more.
    is_off: Arc<AtomicBool>,
    meeting: Option<JoinHandle<pangea_rdma::Result<Option<Lifelines>>>>,
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
        let mut job = Self {
            children: Vec::new(),
            events,
            sender,
            last_signal: None,
            is_off: is_off.clone(),
            meeting: None,
        };
        for (node, mut command) in NodeId::all(nodes).zip(commands) {
            command.envs(rendezvous.environment(node));
            os::end_with_parent(&mut command);
            let child = command.spawn().map_err(|error| Error::Config {
                field: "program",
                reason: format!("cannot start {}: {error}", command.get_program().display()),
            })?;
            let process = child.id();
            job.children.push(Some(child));
            notify(node, process, job.sender.clone())?;
        }
        let meet = move || {
            let deadline = Instant::now() + JOIN_TIMEOUT;
            // Acquire: pairs with the Release in `call_off`.
            rendezvous.serve(deadline, &|| is_off.load(Ordering::Acquire))
        };
        let meeting = thread::Builder::new().name("pangea rendezvous".to_owned()).spawn(meet);
        job.meeting = Some(meeting.map_err(Error::os("starting a thread"))?);
        Ok(job)
    }

    /// The number of the process of `node`; `None` once it has ended.
    pub fn process(&self, node: NodeId) -> Option<u32> {
        Some(self.children.get(node.index())?.as_ref()?.id())
    }

    /// What `node` prints, if it was started with a pipe and nobody has taken it yet.
    pub fn take_stdout(&mut self, node: NodeId) -> Option<ChildStdout> {
        self.children.get_mut(node.index())?.as_mut()?.stdout.take()
    }

    /// What `node` prints of its errors, likewise.
    pub fn take_stderr(&mut self, node: NodeId) -> Option<ChildStderr> {
        self.children.get_mut(node.index())?.as_mut()?.stderr.take()
    }

    /// To pass signals on to the nodes.
    pub fn signals(&self) -> Signals {
        Signals(self.sender.clone())
    }

    /// Waits until all nodes have ended, and returns how the first failed, if one did. One that
    /// failed because it had lost another is not the first.
    ///
    /// When one fails, the others have a moment to notice and to say so; then they are told to end,
    /// and then killed. All are gone within 3 seconds.
    ///
    /// # Errors
    ///
    /// Where the nodes could not be brought together, which is why they failed.
    pub fn wait(mut self) -> Result<Option<Ending>> {
        let mut failed = Vec::new();
        while self.is_running() && failed.is_empty() {
            // An event comes for each node that runs; this job holds a sender itself.
            let Ok(event) = self.events.recv() else { break };
            self.take_in(event, &mut failed);
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
            Event::Signal(signal) => {
                let now = Instant::now();
                let again = self.last_signal.replace(now).is_some_and(|last| now - last < INSIST);
                // Who asks twice means it, whatever the nodes do with a signal.
                self.signal_all(if again { libc::SIGKILL } else { signal });
            }
            Event::Ended(node) => {
                // A node that ends without having joined leaves the others waiting for it in vain.
                self.call_off();
                let child = self.children[node.index()].take();
                let Some(mut child) = child else { return };
                // A status that somebody else has taken is none of a success.
                let status = child.wait().unwrap_or(ExitStatus::from_raw(1 << 8));
                if !status.success() {
                    failed.push(Ending { node, status });
                }
            }
        }
    }

    /// The first of `failed` that had not lost another of them.
    fn first_cause(&mut self, failed: &[Ending]) -> Result<Option<Ending>> {
        let Some(&first) = failed.first() else { return Ok(None) };
        let Some(Ok(met)) = self.meeting.take().map(JoinHandle::join) else {
            return Ok(Some(first));
        };
        let Some(lifelines) = met? else { return Ok(Some(first)) };
        let has_failed = |node: &NodeId| failed.iter().any(|ending| ending.node == *node);
        let mut causes = failed.iter();
        let cause =
            causes.find(|ending| !lifelines.take_losses(ending.node).iter().any(has_failed));
        Ok(Some(cause.copied().unwrap_or(first)))
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
