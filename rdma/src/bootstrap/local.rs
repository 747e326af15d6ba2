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
    io::{self, ErrorKind, Read},
    os::{fd::AsFd, unix::net::UnixListener, unix::net::UnixStream},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use self::{
    directory::Directory,
    hello::{Hello, Nonce},
};
use super::Meeting;
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
    nonce: Nonce,
    nodes: u16,
}

impl Rendezvous {
    /// Prepares a meeting of `nodes` nodes.
    pub fn new(nodes: u16) -> Result<Self> {
        if nodes == 0 || nodes > NODES_MAX {
            let reason = format!("{nodes} nodes; one host may have 1 to {NODES_MAX}");
            return Err(Error::Config { field: "nodes", reason });
        }
        let nonce = Nonce::random()?;
        let directory = Directory::new(&nonce)?;
        let path = directory.socket();
        let listener = UnixListener::bind(&path).map_err(|error| Error::Config {
            field: "TMPDIR",
            reason: format!("cannot make the socket {}: {error}", path.display()),
        })?;
        Ok(Self { listener, directory, nonce, nodes })
    }

    /// The environment variables that tell the process of `node` where to go.
    pub fn environment(&self, node: NodeId) -> [(&'static str, OsString); 4] {
        [
            (RENDEZVOUS, self.directory.socket().into()),
            (JOB, self.nonce.to_string().into()),
            (NODE, node.number().to_string().into()),
            (NODES, self.nodes.to_string().into()),
        ]
    }

    /// Waits for every node, and gives each a socket to every other; `None` where `is_off` said
    /// that there will be no meeting. Strangers are told why they are refused, and do no harm.
    pub fn serve(self, deadline: Instant, is_off: &dyn Fn() -> bool) -> Result<Option<Lifelines>> {
        let start = Instant::now();
        let mut arrived: Vec<Option<UnixStream>> = (0..self.nodes).map(|_| None).collect();
        while let Some(missing) = arrived.iter().position(Option::is_none) {
            if is_off() {
                return Ok(None);
            }
            if Instant::now() >= deadline {
                let waiting_for = format!("node {missing} to join the job");
                return Err(Error::TimedOut { waiting_for, after: start.elapsed() });
            }
            if descriptor::await_input(&mut [descriptor::input(&self.listener)], Some(TICK)) {
                let (socket, _) = self.listener.accept().map_err(Error::os("accepting a node"))?;
                self.admit(socket, &mut arrived);
            }
        }
        introduce(&arrived)?;
        Ok(Some(Lifelines { sockets: arrived.into_iter().flatten().collect() }))
    }

    /// Lets the caller in, if it is a node of this job that is not there yet.
    fn admit(&self, socket: UnixStream, arrived: &mut [Option<UnixStream>]) {
        descriptor::no_signal(&socket);
        let Ok(()) = socket.set_write_timeout(Some(HELLO_TIMEOUT)) else { return };
        let Ok(hello) = Hello::receive(&socket, Instant::now() + HELLO_TIMEOUT) else { return };
        let checked = hello.check(&self.nonce, self.nodes).and_then(|node| {
            let place = &mut arrived[node.index()];
            if place.is_some() { Err(format!("{node} is there already")) } else { Ok(place) }
        });
        match checked {
            // A node that cannot be answered is gone; the launcher notices as its parent.
            Ok(place) => *place = hello::accept(&socket).is_ok().then_some(socket),
            Err(reason) => _ = hello::refuse(&socket, &reason),
        }
    }
}

/// The launcher's sockets to the nodes, which say through them whom they have lost.
#[derive(Debug)]
pub struct Lifelines {
    // By node.
    sockets: Vec<UnixStream>,
}

impl Lifelines {
    /// The nodes that `node` has lost since it was last asked. A node that failed without having
    /// lost another failed by itself.
    pub fn take_losses(&self, node: NodeId) -> Vec<NodeId> {
        let Some(mut socket) = self.sockets.get(node.index()) else { return Vec::new() };
        let mut bytes = [0; 2 * NODES_MAX as usize];
        let read = socket.set_nonblocking(true).and_then(|()| socket.read(&mut bytes));
        let (pairs, _) = bytes[..read.unwrap_or(0)].as_chunks::<2>();
        pairs.iter().map(|pair| NodeId::new(u16::from_le_bytes(*pair))).collect()
    }
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
    nonce: Nonce,
    node: NodeId,
    nodes: u16,
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
        let nonce = env::var(JOB).ok().and_then(|text| Nonce::parse(&text));
        let Some(nonce) = nonce else {
            let reason = "not the 32 hexadecimal digits that a launcher sets".to_owned();
            return Err(Error::Config { field: JOB, reason });
        };
        Ok(Some(Self { rendezvous: rendezvous.into(), nonce, node: NodeId::new(node), nodes }))
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
pub fn join(invitation: &Invitation, deadline: Instant) -> Result<Meeting> {
    let path = &invitation.rendezvous;
    let socket = UnixStream::connect(path).map_err(|error| match error.kind() {
        // Found by a program that a node has started, say.
        ErrorKind::NotFound => Error::Config {
            field: RENDEZVOUS,
            reason: format!("{} is gone: this job's nodes have met already", path.display()),
        },
        _ => Error::os("connecting to the launcher")(error),
    })?;
    let step = Step { socket: &socket, path, deadline };
    step.run("the launcher to hear this node", || {
        Hello::new(invitation.nonce.clone(), invitation.node, invitation.nodes).send(&socket)
    })?;
    if let Some(reason) = step.run("the launcher's answer", || hello::answer(&socket))? {
        let reason = format!("the launcher refused this process: {reason}");
        return Err(Error::JoinFailed { reason });
    }
    let mut sockets: Vec<Option<UnixStream>> = (0..invitation.nodes).map(|_| None).collect();
    for _ in 1..invitation.nodes {
        let mut peer = [0; 2];
        let passed =
            step.run("all nodes to start", || descriptor::receive_exact(&socket, &mut peer))?;
        let peer = usize::from(u16::from_le_bytes(peer));
        let place = sockets.get_mut(peer).filter(|_| peer != invitation.node.index());
        let (Some(passed), Some(place @ None)) = (passed, place) else {
            return Err(Error::protocol(format!("the launcher introduced node {peer} wrongly")));
        };
        *place = Some(passed.into());
    }
    let (node, nodes) = (invitation.node, invitation.nodes);
    Ok(Meeting { node, nodes, sockets, lifeline: Some(socket) })
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
