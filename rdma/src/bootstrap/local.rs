//! Nodes on one host meet at a Unix socket in a private directory.
//!
//! The launcher makes the directory (mode 0700) with a socket in it, and a random number that names
//! the job. Every node says hello; when all are there, each gets one end of a socket pair for each
//! peer, and the directory is removed: from then on nothing of the job has a name. A directory
//! whose launcher was killed before that is removed by its nodes, or by the next launcher.

mod directory;
mod hello;

use std::{
    env,
    ffi::OsString,
    io::{self, ErrorKind, Write},
    os::{fd::AsFd, unix::net::UnixListener, unix::net::UnixStream},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use self::{directory::Directory, hello::Hello};
use super::{Build, Job, Lifeline, Lifelines, Meeting, build::Agreement, reason};
use crate::{Error, NodeId, Result, descriptor};

/// Where the nodes meet: the path of a socket.
pub const RENDEZVOUS: &str = "PANGEA_RENDEZVOUS";
/// The number that names the job, in hexadecimal.
pub const JOB: &str = "PANGEA_JOB";
/// This node's number.
pub const NODE: &str = "PANGEA_NODE";
/// The number of nodes.
pub const NODES: &str = "PANGEA_NODES";

/// Nodes that one host may have: each holds a few descriptors of every other, and a process may
/// have about a thousand.
pub const NODES_MAX: u16 = 128;

/// In the place of a peer's number: what follows is why there is no meeting.
const NO_MEETING: u16 = u16::MAX;
/// How long somebody who has connected may take to say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a node may take to receive a socket.
const PASS_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the launcher looks whether it has been called off.
const TICK: Duration = Duration::from_millis(5);

/// The launcher's side: where the nodes of one job meet.
#[derive(Debug)]
pub struct Rendezvous {
    // Declared before the directory: the socket is closed before its name goes.
    listener: UnixListener,
    directory: Directory,
    job: Job,
    nodes: u16,
}

impl Rendezvous {
    /// Prepares a meeting of `nodes` nodes.
    pub fn new(nodes: u16) -> Result<Self> {
        if nodes == 0 || nodes > NODES_MAX {
            let reason = format!("{nodes} nodes; one host may have 1 to {NODES_MAX}");
            return Err(Error::Config { field: "nodes", reason });
        }
        Self::of(Job::random()?, nodes)
    }

    /// Prepares the meeting of `job`, which was named by others.
    fn of(job: Job, nodes: u16) -> Result<Self> {
        let directory = Directory::new(&job)?;
        let path = directory.socket();
        let listener = UnixListener::bind(&path).map_err(|error| Error::Config {
            field: "TMPDIR",
            reason: format!("cannot make the socket {}: {error}", path.display()),
        })?;
        Ok(Self { listener, directory, job, nodes })
    }

    /// The job and the socket that the nodes need to know.
    pub(super) fn place(&self) -> (Job, PathBuf) {
        (self.job, self.directory.socket())
    }

    /// The same meeting for fewer nodes.
    pub(super) fn among(self, nodes: u16) -> Self {
        Self { nodes, ..self }
    }

    /// The environment variables that tell the process of `node` where to go.
    pub fn environment(&self, node: NodeId) -> [(&'static str, OsString); 4] {
        [
            (RENDEZVOUS, self.directory.socket().into()),
            (JOB, self.job.to_string().into()),
            (NODE, node.number().to_string().into()),
            (NODES, self.nodes.to_string().into()),
        ]
    }

    /// Waits for every node, and gives each a socket to every other; `None` where `is_off` said
    /// that there will be no meeting. Strangers are told why they are refused, and do no harm.
    pub fn serve(self, deadline: Instant, is_off: &dyn Fn() -> bool) -> Result<Option<Lifelines>> {
        let start = Instant::now();
        let mut arrived: Vec<Option<UnixStream>> = (0..self.nodes).map(|_| None).collect();
        let mut agreement = Agreement::default();
        while let Some(missing) = arrived.iter().position(Option::is_none) {
            if is_off() {
                return Ok(None);
            }
            if Instant::now() >= deadline {
                let waiting_for = format!("node {missing} to join the job");
                let error = Error::TimedOut { waiting_for, after: start.elapsed() };
                call_off(&arrived, &error.to_string());
                return Err(error);
            }
            if descriptor::await_input(&mut [descriptor::input(&self.listener)], Some(TICK)) {
                let (socket, _) = self.listener.accept().map_err(Error::os("accepting a node"))?;
                self.admit(socket, &mut arrived, &mut agreement)?;
            }
        }
        introduce(&arrived)?;
        Ok(Some(Lifelines::new(arrived.into_iter().flatten().map(Lifeline::Local).collect())))
    }

    /// Lets the caller in, if it is a node of this job that is not there yet. One that cannot work
    /// with the others is an error for all: it will not come back as another.
    fn admit(
        &self,
        socket: UnixStream,
        arrived: &mut [Option<UnixStream>],
        agreement: &mut Agreement,
    ) -> Result {
        descriptor::no_signal(&socket);
        let Ok(()) = socket.set_write_timeout(Some(HELLO_TIMEOUT)) else { return Ok(()) };
        let hello = Hello::receive(&socket, Instant::now() + HELLO_TIMEOUT);
        let Ok(hello) = hello else { return Ok(()) };
        let checked = hello.check(&self.job, self.nodes).and_then(|node| {
            let is_there = arrived[node.index()].is_some();
            if is_there { Err(format!("{node} is there already")) } else { Ok(node) }
        });
        let node = match checked {
            Ok(node) => node,
            Err(reason) => {
                _ = answer(&socket, Some(&reason));
                return Ok(());
            }
        };
        if let Err(reason) = hello.agree(agreement) {
            _ = answer(&socket, Some(&reason));
            call_off(arrived, &reason);
            return Err(Error::JoinFailed { reason });
        }
        // A node that cannot be answered is gone; the launcher notices as its parent.
        arrived[node.index()] = answer(&socket, None).is_ok().then_some(socket);
        Ok(())
    }
}

/// Tells the nodes that have come why there is no meeting.
fn call_off(arrived: &[Option<UnixStream>], reason: &str) {
    let told = [&NO_MEETING.to_le_bytes()[..], &reason::encode(Some(reason))].concat();
    // Who has gone need not know.
    arrived.iter().flatten().for_each(|mut socket| _ = socket.write_all(&told));
}

/// Lets a caller in, or tells it why not.
fn answer(mut socket: &UnixStream, refusal: Option<&str>) -> io::Result<()> {
    socket.write_all(&reason::encode(refusal))
}

/// Gives the nodes a socket pair for each two of them.
fn introduce(arrived: &[Option<UnixStream>]) -> Result {
    let nodes: Vec<&UnixStream> = arrived.iter().flatten().collect();
    for (number, first) in nodes.iter().enumerate() {
        for (other, second) in nodes.iter().enumerate().skip(number + 1) {
            let (one, two) = UnixStream::pair().map_err(Error::os("socketpair"))?;
            descriptor::no_signal(&one);
            descriptor::no_signal(&two);
            pass(first, other, &one)?;
            pass(second, number, &two)?;
        }
    }
    Ok(())
}

/// Passes `socket`, which leads to `peer`. Who has died is found out by its peers.
fn pass(node: &UnixStream, peer: usize, socket: &UnixStream) -> Result {
    let peer = u16::try_from(peer).expect("nodes are numbered by u16").to_le_bytes();
    let deadline = Instant::now() + PASS_TIMEOUT;
    loop {
        let Err(error) = descriptor::send(node, &peer, Some(socket.as_fd())) else { return Ok(()) };
        match error.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => return Ok(()),
            // The node reads slowly, or too many descriptors of this user are under way.
            _ if Instant::now() < deadline && is_busy(&error) => thread::sleep(TICK),
            _ => return Err(Error::os("passing a socket to a node")(error)),
        }
    }
}

fn is_busy(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ETOOMANYREFS)
}

/// The place and the part that a launcher has given this process.
#[derive(Clone, Debug)]
pub struct Invitation {
    rendezvous: PathBuf,
    job: Job,
    node: NodeId,
    nodes: u16,
    // Without one, node 0 prepares the meeting.
    has_launcher: bool,
}

impl Invitation {
    /// Reads the environment; `None` where nobody has invited this process.
    pub fn from_env() -> Result<Option<Self>> {
        let Some(rendezvous) = env::var_os(RENDEZVOUS) else { return Ok(None) };
        let nodes: u16 = number(NODES)?;
        let node: u16 = number(NODE)?;
        if nodes == 0 || nodes > NODES_MAX || node >= nodes {
            let reason =
                format!("{node} of {nodes} nodes; it is less than their number, 1 to {NODES_MAX}");
            return Err(Error::Config { field: NODE, reason });
        }
        let job = env::var(JOB).ok().and_then(|text| Job::parse(&text));
        let Some(job) = job else {
            let reason = "not the 32 hexadecimal digits that a launcher sets".to_owned();
            return Err(Error::Config { field: JOB, reason });
        };
        Ok(Some(Self::to(rendezvous.into(), job, NodeId::new(node), nodes)))
    }

    /// To a meeting at the socket `rendezvous`.
    pub(super) fn to(rendezvous: PathBuf, job: Job, node: NodeId, nodes: u16) -> Self {
        Self { rendezvous, job, node, nodes, has_launcher: true }
    }

    /// To a meeting that node 0 prepares, at a place that all derive from `job`.
    pub(super) fn without_launcher(job: Job, node: NodeId, nodes: u16) -> Self {
        let rendezvous = directory::socket(&job);
        Self { has_launcher: false, ..Self::to(rendezvous, job, node, nodes) }
    }

    /// Which node this process is to be.
    pub fn node(&self) -> NodeId {
        self.node
    }
}

fn number(field: &'static str) -> Result<u16> {
    let text = env::var(field).unwrap_or_default();
    text.parse().map_err(|_| Error::Config {
        field,
        reason: format!("'{text}' is not the number that a launcher sets beside {RENDEZVOUS}"),
    })
}

/// Goes to the meeting, and returns when all are there.
pub fn join(invitation: &Invitation, build: &Build, deadline: Instant) -> Result<Meeting> {
    let path = &invitation.rendezvous;
    if invitation.has_launcher {
        let socket = UnixStream::connect(path).map_err(|error| match error.kind() {
            // Found by a program that a node has started, say.
            ErrorKind::NotFound => Error::Config {
                field: RENDEZVOUS,
                reason: format!(
                    "{} is gone: this job's nodes have met already, or it was called off",
                    path.display()
                ),
            },
            _ => Error::os("connecting to the launcher")(error),
        })?;
        return attend(invitation, socket, build, deadline);
    }
    if invitation.node.index() == 0 {
        let rendezvous = Rendezvous::of(invitation.job, invitation.nodes)?;
        return host(rendezvous, invitation, build, deadline);
    }
    let start = Instant::now();
    loop {
        // Where somebody else has made the directory, nobody of this job will listen there.
        if directory::is_private(path)
            && let Ok(socket) = UnixStream::connect(path)
        {
            return attend(invitation, socket, build, deadline);
        }
        if Instant::now() >= deadline {
            let waiting_for = format!("node 0 to prepare the meeting at {}", path.display());
            return Err(Error::TimedOut { waiting_for, after: start.elapsed() });
        }
        thread::sleep(TICK);
    }
}

/// Holds the meeting at `rendezvous`, and joins it as the node of `invitation`.
pub(super) fn host(
    rendezvous: Rendezvous,
    invitation: &Invitation,
    build: &Build,
    deadline: Instant,
) -> Result<Meeting> {
    let path = &invitation.rendezvous;
    let socket = UnixStream::connect(path).map_err(Error::os("connecting to this node itself"))?;
    thread::scope(|scope| {
        let serving = thread::Builder::new().name("pangea rendezvous".to_owned());
        let serve = || rendezvous.serve(deadline, &|| false);
        let serving = serving.spawn_scoped(scope, serve);
        let serving = serving.map_err(Error::os("starting a thread"))?;
        let met = attend(invitation, socket, build, deadline);
        // Its ends of the lifelines are of no use: nobody asks for losses.
        _ = serving.join();
        met
    })
}

/// Whether a meeting at the socket `path` can be joined.
pub(super) fn is_reachable(path: &Path) -> bool {
    directory::is_private(path)
}

/// Joins by `socket`, which leads to whoever holds the meeting.
fn attend(
    invitation: &Invitation,
    socket: UnixStream,
    build: &Build,
    deadline: Instant,
) -> Result<Meeting> {
    let path = &invitation.rendezvous;
    let step = Step { socket: &socket, path, deadline };
    step.run("the launcher to hear this node", || {
        Hello::new(invitation.job, invitation.node, invitation.nodes, build).send(&socket)
    })?;
    if let Some(reason) = step.run("the launcher's answer", || reason::receive(&mut &socket))? {
        let reason = format!("the launcher refused this process: {reason}");
        return Err(Error::JoinFailed { reason });
    }
    let mut sockets: Vec<Option<UnixStream>> = (0..invitation.nodes).map(|_| None).collect();
    for _ in 1..invitation.nodes {
        let mut peer = [0; 2];
        let passed =
            step.run("all nodes to start", || descriptor::receive_exact(&socket, &mut peer))?;
        let peer = u16::from_le_bytes(peer);
        if peer == NO_MEETING {
            let reason = step.run("why there is no meeting", || reason::receive(&mut &socket))?;
            return Err(Error::JoinFailed { reason: reason.unwrap_or_default() });
        }
        let peer = usize::from(peer);
        let place = sockets.get_mut(peer).filter(|_| peer != invitation.node.index());
        let (Some(passed), Some(place @ None)) = (passed, place) else {
            return Err(Error::protocol(format!("the launcher introduced node {peer} wrongly")));
        };
        *place = Some(passed.into());
    }
    Ok(Meeting::on_this_host(invitation.node, sockets, Some(Lifeline::Local(socket))))
}

/// A step of joining, which ends by a deadline and cleans up after a launcher that has gone.
struct Step<'a> {
    socket: &'a UnixStream,
    path: &'a Path,
    deadline: Instant,
}

impl Step<'_> {
    fn run<T>(&self, waiting_for: &'static str, step: impl FnOnce() -> io::Result<T>) -> Result<T> {
        let start = Instant::now();
        let left = self.deadline.saturating_duration_since(start).max(Duration::from_millis(1));
        let timeouts = self.socket.set_read_timeout(Some(left));
        let timeouts = timeouts.and_then(|()| self.socket.set_write_timeout(Some(left)));
        timeouts.and_then(|()| step()).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                Error::TimedOut { waiting_for: waiting_for.to_owned(), after: start.elapsed() }
            }
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                directory::remove(self.path);
                let what = "the launcher went away, or called the job off";
                Error::JoinFailed { reason: format!("{what} (waiting for {waiting_for})") }
            }
            _ => Error::os("talking to the launcher")(error),
        })
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests;
