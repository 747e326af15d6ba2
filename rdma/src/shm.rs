//! Nodes on one host: each maps the memory of the others.
//!
//! Reads, writes and atomics are the processor's own, messages go through rings of cache lines, and
//! who sleeps is woken through a word that both sides map.

#[cfg(all(test, loom))]
mod loom;
mod membership;
mod peer;
mod ring;
mod segment;
mod waiting;
mod watch;

use std::{
    mem,
    os::unix::net::UnixStream,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use self::{
    membership::{ANNOUNCEMENT_TIMEOUT, Membership},
    peer::Peer,
    ring::Buffer,
    segment::Segment,
    watch::Watch,
};
use crate::{
    Capabilities, Completion, Error, Fabric, MESSAGE_LEN_MAX, Mapping, NodeId, Op, PeerMemory,
    Presence, Region, Request, Result, Token, Way,
    bell::Rope,
    bootstrap::Meeting,
    primitive::{AtomicU32, Ordering},
    regions::Regions,
    roster::{Departure, Roster},
    turn::Turn,
};

/// The region in which every node announces its segment.
const SEGMENT: Region = Region(0);

/// A node's end of shared memory.
#[derive(Debug)]
pub struct Shm {
    node: NodeId,
    roster: Arc<Roster>,
    own: Arc<Segment>,
    // By node; `None` for those of other hosts.
    peers: Vec<Option<Peer>>,
    membership: Arc<Membership>,
    regions: Regions,
    done: Mutex<Vec<(Token, Ended)>>,
    // Entries of `done`, to look without its lock.
    done_count: AtomicU32,
    // Peers whose ring was full when something was last sent to them.
    full_count: AtomicU32,
    // Set by `wake`, taken by `wait`.
    is_woken: AtomicU32,
    // Held while polling: completions are handed out by one thread at a time.
    polling: Turn<Polling>,
    watch: Option<Watch>,
}

/// What a poll works with, kept so that it allocates nothing.
#[derive(Debug)]
struct Polling {
    message: Box<Buffer>,
    done: Vec<(Token, Ended)>,
}

/// How a request ended. The error is boxed, as there is none: a success then fits two registers,
/// and is not copied through memory on its way.
type Ended = Result<u64, Box<Error>>;

impl Shm {
    /// Joins the nodes that have met, until `deadline` at most.
    pub fn connect(meeting: Meeting, deadline: Instant) -> Result<Self> {
        let Meeting { node, nodes, sockets, lifeline, .. } = meeting;
        let roster = Arc::new(Roster::new(node, nodes, lifeline));
        roster.report_ways(&vec![Way::SHM; usize::from(nodes)]);
        Self::reach(roster, sockets, None, deadline)
    }

    /// Reaches the nodes to which there is one of `sockets`: those of this host. By `rope`, which
    /// all of them have or none, they wake this node where it listens to other hosts.
    pub(crate) fn reach(
        roster: Arc<Roster>,
        sockets: Vec<Option<UnixStream>>,
        rope: Option<Rope>,
        deadline: Instant,
    ) -> Result<Self> {
        let (node, nodes) = (roster.node(), roster.nodes());
        let is_near: Vec<bool> = sockets.iter().map(Option::is_some).collect();
        for socket in sockets.iter().flatten() {
            let timeout = Some(ANNOUNCEMENT_TIMEOUT);
            socket.set_write_timeout(timeout).map_err(Error::os("setting a socket's timeout"))?;
        }
        let own = Arc::new(Segment::new(Mapping::new(Segment::len(nodes))?, nodes)?);
        let membership = Arc::new(Membership::new(roster.clone(), sockets));
        let watch = Watch::start(membership.clone(), own.clone())?;
        membership.announce(SEGMENT, own.mapping())?;
        if let Some(rope) = rope {
            membership.announce_bell(&rope)?;
            own.tie(rope);
        }
        let mut peers = Vec::new();
        for peer in NodeId::all(nodes) {
            let segment = if peer == node {
                own.clone()
            } else if is_near[peer.index()] {
                let object = membership.take(peer, SEGMENT, deadline)?;
                let segment = Segment::new(object.map()?, nodes)?;
                if own.rope().is_some() {
                    segment.tie(membership.take_bell(peer, deadline)?);
                }
                let segment = Arc::new(segment);
                membership.meet(peer, segment.clone());
                segment
            } else {
                peers.push(None);
                continue;
            };
            peers.push(Some(Peer::new(segment)));
        }
        Ok(Self {
            node,
            roster,
            own,
            peers,
            membership,
            regions: Regions::new(SEGMENT),
            done: Mutex::default(),
            done_count: AtomicU32::new(0),
            full_count: AtomicU32::new(0),
            is_woken: AtomicU32::new(0),
            polling: Turn::new(Polling { message: Box::new(ring::EMPTY), done: Vec::new() }),
            watch: Some(watch),
        })
    }

    /// A cluster of one.
    pub fn alone() -> Result<Self> {
        Self::connect(Meeting::alone(), Instant::now())
    }

    /// Does `op` at once; `None` where a message found its ring full.
    ///
    /// # Safety
    ///
    /// As for [`Fabric::post`].
    unsafe fn carry_out(&self, op: &Op) -> Option<Ended> {
        if let Op::Send { target, message } = *op {
            // SAFETY: the caller vouches for `message`.
            return self.send(target, unsafe { message.as_ref() });
        }
        if self.peer(op.node()).is_some() && self.is_lost(op.node()) {
            // Its memory is still there, but nobody's any more.
            return Some(Err(Box::new(self.roster.lost(op.node()))));
        }
        if let Op::Signal { target, .. } = *op {
            // SAFETY: a signal names no memory of this process.
            let ended = unsafe { self.regions.access(op) };
            self.ring(target.node);
            return Some(ended.map_err(Box::new));
        }
        // SAFETY: passed on to the caller.
        Some(unsafe { self.regions.access(op) }.map_err(Box::new))
    }

    fn send(&self, target: NodeId, message: &[u8]) -> Option<Ended> {
        let peer = self.peer(target).filter(|_| !self.is_lost(target));
        let Some(peer) = peer.filter(|_| message.len() <= MESSAGE_LEN_MAX) else {
            return Some(Err(Box::new(self.refusal(target, message.len()))));
        };
        let ring = peer.segment.ring_from(self.node);
        let mut outgoing = lock(&peer.outgoing);
        let is_sent = outgoing.producer.push(ring, message);
        if is_sent == outgoing.is_full {
            outgoing.is_full = !is_sent;
            self.count_full(!is_sent);
        }
        peer.note_sent(&outgoing);
        drop(outgoing);
        // The receiver, or who waits here for room: it may have been made before this was counted.
        let waiter = if is_sent { &peer.segment } else { &self.own };
        waiter.ring_messages();
        is_sent.then_some(Ok(0))
    }

    #[inline]
    fn peer(&self, peer: NodeId) -> Option<&Peer> {
        self.peers.get(peer.index())?.as_ref()
    }

    /// Why a message of `len` bytes to `target` cannot be sent.
    #[cold]
    fn refusal(&self, target: NodeId, len: usize) -> Error {
        if self.peer(target).is_none() {
            return Error::protocol(format!("there is no {target} to send to on this host"));
        }
        if len > MESSAGE_LEN_MAX {
            let (len, capacity) = (len as u64, MESSAGE_LEN_MAX as u64);
            return Error::OutOfBounds { offset: 0, len, capacity };
        }
        self.roster.lost(target)
    }

    fn count_full(&self, is_full: bool) {
        // Relaxed, both: the ring of the doorbell that follows orders them.
        if is_full {
            self.full_count.fetch_add(1, Ordering::Relaxed);
        } else {
            self.full_count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes every message that `peer` has sent.
    fn receive(
        &self,
        source: NodeId,
        buffer: &mut Buffer,
        sink: &mut dyn FnMut(Completion<'_>),
    ) -> usize {
        let Some(peer) = self.peer(source) else { return 0 };
        let ring = self.own.ring_from(source);
        let mut count = 0;
        loop {
            let before = peer.incoming.consumed();
            let len = match peer.incoming.pop(ring, buffer) {
                Ok(Some(len)) => len,
                Ok(None) => break,
                Err(_) => {
                    // Who breaks the protocol once is not listened to again.
                    peer.incoming.close();
                    self.membership.lose(source, Departure::Died, &self.own);
                    break;
                }
            };
            peer.expect_reply(self.node);
            if peer.incoming.is_call_due(before) {
                peer.segment.ring_messages();
            }
            sink(Completion::Message { source, message: &buffer.as_flattened()[..len] });
            count += 1;
        }
        count
    }

    /// Hands out what is done, by way of `taken`, which is empty before and after.
    // Apart, as `access`.
    #[inline(never)]
    fn hand_out_done(
        &self,
        taken: &mut Vec<(Token, Ended)>,
        sink: &mut dyn FnMut(Completion<'_>),
    ) -> usize {
        let mut done = lock(&self.done);
        // Relaxed: written under the lock.
        self.done_count.store(0, Ordering::Relaxed);
        mem::swap(&mut *done, taken);
        drop(done);
        let count = taken.len();
        for (token, ended) in taken.drain(..) {
            sink(Completion::Done { token, result: ended.map_err(|error| *error) });
        }
        count
    }
}

impl Fabric for Shm {
    fn node(&self) -> NodeId {
        self.node
    }

    fn nodes(&self) -> u16 {
        u16::try_from(self.peers.len()).expect("nodes are numbered by u16")
    }

    fn capabilities(&self, _peer: NodeId) -> Capabilities {
        Capabilities { mapped: true, one_sided: true }
    }

    fn register(&self, memory: Arc<Mapping>) -> Result<Region> {
        let announce = |region| self.membership.announce(region, &memory);
        self.regions.register(self.node, memory.clone(), &announce)
    }

    fn region(&self, peer: NodeId, region: Region, deadline: Instant) -> Result<PeerMemory> {
        self.membership.take(peer, region, deadline).map(PeerMemory::Object)
    }

    fn attach(&self, peer: NodeId, region: Region, memory: Arc<Mapping>) {
        self.regions.attach(peer, region, memory);
    }

    unsafe fn post(&self, batch: &[Request]) -> Result<usize> {
        for (count, request) in batch.iter().enumerate() {
            // SAFETY: passed on to the caller.
            let Some(ended) = (unsafe { self.carry_out(&request.op) }) else {
                return Ok(count);
            };
            lock(&self.done).push((request.token, ended));
            // Release: pairs with the Acquire in `has_done`.
            self.done_count.fetch_add(1, Ordering::Release);
        }
        Ok(batch.len())
    }

    fn poll(&self, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        let Some(mut polling) = self.polling.take() else { return 0 };
        let Polling { message, done } = &mut *polling;
        let mut count = 0;
        for source in NodeId::all(self.nodes()) {
            count += self.receive(source, message, sink);
        }
        if self.has_done() {
            count += self.hand_out_done(done, sink);
        }
        count
    }

    fn wait(&self, epoch: u64, deadline: Instant) -> bool {
        self.own.messages().wait(deadline, &mut || {
            self.has_arrived_near()
                || self.epoch() != epoch
                // Acquire: pairs with the Release in `wake`. Swapped only where it is set: to write
                // a word takes longer than to look at it.
                || (self.is_woken.load(Ordering::Relaxed) != 0
                    && self.is_woken.swap(0, Ordering::Acquire) != 0)
        })
    }

    fn wake(&self) {
        // Release: pairs with the Acquire in `wait`.
        self.is_woken.store(1, Ordering::Release);
        self.own.ring_messages();
    }

    fn has_arrived(&self) -> bool {
        false
    }

    fn wait_until(&self, deadline: Instant, ready: &mut dyn FnMut() -> bool) -> bool {
        self.own.signals().wait(deadline, ready)
    }

    #[inline]
    fn ring(&self, peer: NodeId) {
        if let Some(peer) = self.peer(peer) {
            peer.segment.ring_signals();
        }
    }

    fn epoch(&self) -> u64 {
        self.roster.epoch()
    }

    fn presence(&self, peer: NodeId) -> Presence {
        self.roster.presence(peer)
    }

    fn way(&self, peer: NodeId) -> &Way {
        if peer == self.node { &Way::ITSELF } else { &Way::SHM }
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        // First: who leaves after this node, perhaps because of it, is no loss to it.
        drop(self.watch.take());
        // A node that panics dies: it has not done what the others count on.
        if !thread::panicking() {
            self.membership.say_goodbye();
        }
    }
}

/// Locks `mutex`; what is behind the locks of this file is whole whenever a thread can panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(loom)))]
mod tests;
