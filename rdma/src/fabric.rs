//! What every wire can do: operations as data, completions, waiting.

use std::{fmt, ptr::NonNull, sync::Arc, time::Instant};

use crate::{Mapping, NodeId, Result, SharedObject};

/// Bytes of the longest message: a frame.
pub const MESSAGE_LEN_MAX: usize = 4096;

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
    /// Reads, writes and atomics need no agent at the peer.
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
    /// Sends a message of at most [`MESSAGE_LEN_MAX`] bytes; complete when `message` may be reused.
    Send {
        /// To whom.
        target: NodeId,
        /// The bytes, in this process.
        message: NonNull<[u8]>,
    },
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

    /// The memory object of a region that `peer` has registered or will have before `deadline`,
    /// where [`Capabilities::mapped`] holds; to be mapped and handed to [`attach`](Self::attach).
    fn object(&self, peer: NodeId, region: Region, deadline: Instant) -> Result<SharedObject>;

    /// Tells the fabric where a peer's region has been mapped, so that it uses that mapping.
    fn attach(&self, peer: NodeId, region: Region, memory: Arc<Mapping>);

    /// Starts the requests of `batch` in order, and returns how many; fewer than all where a queue
    /// is full: poll, then post the rest. Every request started completes exactly once.
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

    /// Waits until `ready` becomes true by what a peer wrote before it called [`ring`](Self::ring),
    /// or until `deadline`; returns whether it is ready. A lost node rings too.
    fn wait_until(&self, deadline: Instant, ready: &mut dyn FnMut() -> bool) -> bool;

    /// Wakes `peer`, if it blocks in [`wait_until`](Self::wait_until).
    fn ring(&self, peer: NodeId);

    /// A number that grows whenever a node is lost.
    fn epoch(&self) -> u64;

    /// Whether `peer` is there.
    fn presence(&self, peer: NodeId) -> Presence;

    /// Whether `peer` has died or left.
    fn is_lost(&self, peer: NodeId) -> bool {
        self.presence(peer) != Presence::Here
    }
}
