//! What every wire can do: operations as data, completions, waiting.

use std::{borrow::Cow, fmt, ptr::NonNull, sync::Arc, time::Instant};

use crate::{Error, Mapping, NodeId, Result, SharedObject};

/// Bytes of the longest message: a frame.
pub const MESSAGE_LEN_MAX: usize = 4096;

/// Messages of a node that a peer keeps at most: those that its [`poll`](Fabric::poll) has not
/// handed out. A fabric may keep fewer.
pub const MESSAGES_MAX: u32 = 1024;

/// What the poster of a request calls it; comes back with its completion.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Token(pub u64);

/// Memory that a node has registered, by the number that its peers know it under.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Region(pub u32);

/// A place in a region of a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RemoteAddr {
    /// Whose memory.
    pub node: NodeId,
    /// Which of its regions.
    pub region: Region,
    /// Bytes from the region's start.
    pub offset: u64,
}

/// What a node can do to a peer without that peer's help.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Capabilities {
    /// The peer's regions can be mapped here: a load is a read, a store is a write.
    pub mapped: bool,
    /// Reads and writes need no agent at the peer, unless they follow what does: over some wires,
    /// atomics and signals, until they are known to be done.
    pub one_sided: bool,
}

/// An operation on a peer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Op {
    /// Copies remote memory to `target`; complete when the bytes are there.
    Read {
        /// Where from.
        source: RemoteAddr,
        /// Where to, in this process.
        target: NonNull<[u8]>,
    },
    /// Copies `source` to remote memory; complete when every later operation of anybody sees it.
    Write {
        /// Where from, in this process.
        source: NonNull<[u8]>,
        /// Where to.
        target: RemoteAddr,
    },
    /// Adds to a remote 64-bit word, wrapping; completes with the value before.
    FetchAdd {
        /// The word; its offset is a multiple of 8.
        target: RemoteAddr,
        /// What is added.
        addend: u64,
    },
    /// Replaces a remote 64-bit word; completes with the value before.
    Swap {
        /// The word; its offset is a multiple of 8.
        target: RemoteAddr,
        /// The new value.
        value: u64,
    },
    /// Replaces a remote 64-bit word if it is `expected`; completes with the value before.
    CompareSwap {
        /// The word; its offset is a multiple of 8.
        target: RemoteAddr,
        /// What it must be.
        expected: u64,
        /// The new value.
        desired: u64,
    },
    /// Sets a remote 64-bit word, and wakes who waits for it there; complete when it is on its way.
    /// It arrives after all that was posted to that node before.
    Signal {
        /// The word; its offset is a multiple of 8.
        target: RemoteAddr,
        /// What it becomes.
        value: u64,
    },
    /// Sends a message of at most [`MESSAGE_LEN_MAX`] bytes; complete when `message` may be reused.
    /// The queue is full when so many wait to be polled at the target as it keeps.
    Send {
        /// To whom.
        target: NodeId,
        /// The bytes, in this process.
        message: NonNull<[u8]>,
    },
}

impl Op {
    /// The node that it is an operation on.
    pub fn node(&self) -> NodeId {
        match *self {
            Self::Read { source: at, .. }
            | Self::Write { target: at, .. }
            | Self::FetchAdd { target: at, .. }
            | Self::Swap { target: at, .. }
            | Self::CompareSwap { target: at, .. }
            | Self::Signal { target: at, .. } => at.node,
            Self::Send { target, .. } => target,
        }
    }
}

/// An operation, and the name under which its completion comes back.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The poster's name for it.
    pub token: Token,
    /// What is to be done.
    pub op: Op,
}

/// What a poll has found.
#[derive(Debug)]
#[non_exhaustive]
pub enum Completion<'a> {
    /// A request has ended: with the word before it, for an atomic; else with zero.
    Done {
        /// The request's name.
        token: Token,
        /// How it ended.
        result: Result<u64>,
    },
    /// A message has come.
    Message {
        /// Who sent it.
        source: NodeId,
        /// Its bytes.
        message: &'a [u8],
    },
}

impl Completion<'_> {
    /// Who sent the message, if it is one.
    pub(crate) fn source(&self) -> Option<NodeId> {
        match *self {
            Self::Message { source, .. } => Some(source),
            Self::Done { .. } => None,
        }
    }
}

/// A region of a peer.
#[derive(Debug)]
pub enum PeerMemory {
    /// It can be mapped here ([`Capabilities::mapped`]).
    Object(SharedObject),
    /// It is reached by operations only, and has that many bytes.
    Remote(u64),
}

/// How a node reaches another, in words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Way {
    /// What is used, in a few words.
    pub name: Cow<'static, str>,
    /// Where it leads, and why it was taken.
    pub reason: Cow<'static, str>,
}

impl Way {
    /// That of a node to itself.
    pub(crate) const ITSELF: Self =
        Self { name: Cow::Borrowed("itself"), reason: Cow::Borrowed("it is this node") };
    /// That to the nodes of the same host.
    pub(crate) const SHM: Self = Self {
        name: Cow::Borrowed("shared memory"),
        reason: Cow::Borrowed("it is on the same host"),
    };
}

/// Whether a node is there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Presence {
    /// As far as is known.
    Here,
    /// It said goodbye: all that it wrote before is there, and nothing more will come.
    Left,
    /// It ended without a word.
    Died,
}

/// One node's end of all the ways it reaches the others.
///
/// Implementations differ in speed, never in meaning.
pub trait Fabric: fmt::Debug + Send + Sync {
    /// The node this end belongs to.
    fn node(&self) -> NodeId;

    /// Nodes in the cluster.
    fn nodes(&self) -> u16;

    /// What can be done to `peer` without its help.
    fn capabilities(&self, peer: NodeId) -> Capabilities;

    /// Lets every peer read and write `memory` until the fabric is dropped. Every node registers
    /// its memories in the same order, so that they have the same numbers everywhere.
    fn register(&self, memory: Arc<Mapping>) -> Result<Region>;

    /// A region that `peer` has registered, or will have before `deadline`. Where it can be mapped,
    /// it is to be handed to [`attach`](Self::attach) once it is.
    fn region(&self, peer: NodeId, region: Region, deadline: Instant) -> Result<PeerMemory>;

    /// Tells the fabric where a peer's region has been mapped, so that it uses that mapping.
    fn attach(&self, peer: NodeId, region: Region, memory: Arc<Mapping>);

    /// Starts the requests of `batch` in order, and returns how many; fewer than all where a queue
    /// is full: poll, then post the rest. Every request started completes exactly once. A queue of
    /// messages that is full, as their target does not poll, holds up nothing but messages to it.
    ///
    /// # Safety
    ///
    /// The local memory that a request names must stay valid, and be touched by nobody else, until
    /// [`poll`](Self::poll) gives back its token.
    unsafe fn post(&self, batch: &[Request]) -> Result<usize>;

    /// Hands what has completed and what has come to `sink`, without waiting, and returns how many
    /// those were. Where another thread is polling, that thread gets them. A peer that breaks the
    /// protocol is lost.
    fn poll(&self, sink: &mut dyn FnMut(Completion<'_>)) -> usize;

    /// Waits until [`poll`](Self::poll) would find something that a peer has sent, a full queue has
    /// room again, the epoch is another than the caller's, or [`wake`](Self::wake) is called; until
    /// `deadline` at most. Returns whether something happened.
    fn wait(&self, epoch: u64, deadline: Instant) -> bool;

    /// Makes the next [`wait`](Self::wait) of this node return, or the one that blocks now.
    fn wake(&self);

    /// Whether [`poll`](Self::poll) would find something that came over a wire.
    fn has_arrived(&self) -> bool;

    /// Waits until `ready` becomes true by a signal, by what a peer wrote before it called
    /// [`ring`](Self::ring), or by what has come over a wire; or until `deadline`. Returns whether
    /// it is ready. A lost node rings too.
    fn wait_until(&self, deadline: Instant, ready: &mut dyn FnMut() -> bool) -> bool;

    /// Wakes who blocks in [`wait_until`](Self::wait_until) at `peer`, which is on this host or
    /// this node itself.
    fn ring(&self, peer: NodeId);

    /// A number that grows whenever a node is lost.
    fn epoch(&self) -> u64;

    /// Whether `peer` is there.
    fn presence(&self, peer: NodeId) -> Presence;

    /// How `peer` is reached, for people.
    fn way(&self, peer: NodeId) -> &Way;

    /// Whom to name to who finds that `peer` is lost: `peer`, but where it left and another has
    /// died, that one. A node that loses one of the others usually leaves.
    fn first_cause(&self, peer: NodeId) -> NodeId {
        let mut nodes = NodeId::all(self.nodes());
        let died = || nodes.find(|&node| self.presence(node) == Presence::Died);
        (self.presence(peer) == Presence::Left).then(died).flatten().unwrap_or(peer)
    }

    /// Whether `peer` has died or left.
    fn is_lost(&self, peer: NodeId) -> bool {
        self.presence(peer) != Presence::Here
    }
}

/// Waits until `find` finds how many bytes a region of a peer has, which is reached by operations;
/// until `deadline` at most.
pub(crate) fn await_region(
    fabric: &dyn Fabric,
    (peer, region): (NodeId, Region),
    deadline: Instant,
    find: &dyn Fn() -> Option<u64>,
) -> Result<PeerMemory> {
    let start = Instant::now();
    let mut len = None;
    let is_over = fabric.wait_until(deadline, &mut || {
        len = find();
        len.is_some() || fabric.is_lost(peer)
    });
    match len {
        Some(len) => Ok(PeerMemory::Remote(len)),
        None if is_over => {
            Err(Error::PeerLost { node: fabric.first_cause(peer), epoch: fabric.epoch() })
        }
        None => {
            let waiting_for = format!("{peer} to announce region {}", region.0);
            Err(Error::TimedOut { waiting_for, after: start.elapsed() })
        }
    }
}
