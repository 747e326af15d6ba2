//! Nodes on one host: each maps the memory of the others.
//!
//! Reads, writes and atomics are the processor's own, messages go through rings of cache lines, and
//! who sleeps is woken through a word that both sides map.

#[cfg(all(test, loom))]
mod loom;
mod membership;
mod peer;
mod regions;
mod ring;
mod segment;

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use self::{
    membership::{ANNOUNCEMENT_TIMEOUT, DIED, Membership, Watch},
    peer::Peer,
    regions::Regions,
    ring::Buffer,
    segment::Segment,
};
use crate::{
    Capabilities, Completion, Error, Fabric, MESSAGE_LEN_MAX, Mapping, NodeId, Op, Presence,
    Region, Request, Result, SharedObject, Token,
    bootstrap::Meeting,
    primitive::{AtomicU32, Ordering},
    turn::Turn,
};

/// The region in which every node announces its segment.
const SEGMENT: Region = Region(0);

/// A node's end of shared memory.
#[derive(Debug)]
pub struct Shm {
    node: NodeId,
    own: Arc<Segment>,
    peers: Vec<Peer>,
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
        let Meeting { node, nodes, sockets, lifeline } = meeting;
        for socket in sockets.iter().flatten() {
            let timeout = Some(ANNOUNCEMENT_TIMEOUT);
            socket.set_write_timeout(timeout).map_err(Error::os("setting a socket's timeout"))?;
        }
        let own = Arc::new(Segment::new(Mapping::new(Segment::len(nodes))?, nodes)?);
        let membership = Arc::new(Membership::new(node, sockets, lifeline));
        let watch = Watch::start(membership.clone(), own.clone())?;
        membership.announce(SEGMENT, own.mapping())?;
        let mut peers = Vec::new();
        for peer in NodeId::all(nodes) {
            let segment = if peer == node {
                own.clone()
            } else {
                let object = membership.take(peer, SEGMENT, deadline)?;
                Arc::new(Segment::new(object.map()?, nodes)?)
            };
            peers.push(Peer::new(segment));
        }
        Ok(Self {
            node,
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
        // SAFETY: passed on to the caller.
        Some(unsafe { self.regions.access(op) }.map_err(Box::new))
    }

    fn send(&self, target: NodeId, message: &[u8]) -> Option<Ended> {
        let peer = self.peers.get(target.index()).filter(|_| !self.is_lost(target));
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
        waiter.messages().ring();
        is_sent.then_some(Ok(0))
    }

    /// Why a message of `len` bytes to `target` cannot be sent.
    #[cold]
    fn refusal(&self, target: NodeId, len: usize) -> Error {
        if target.index() >= self.peers.len() {
            return Error::protocol(format!("there is no {target} to send to"));
        }
        if len > MESSAGE_LEN_MAX {
            let (len, capacity) = (len as u64, MESSAGE_LEN_MAX as u64);
            return Error::OutOfBounds { offset: 0, len, capacity };
        }
        Error::PeerLost { node: target, epoch: self.epoch() }
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
        let (ring, peer) = (self.own.ring_from(source), &self.peers[source.index()]);
        let mut count = 0;
        loop {
            let before = peer.incoming.consumed();
            let len = match peer.incoming.pop(ring, buffer) {
                Ok(Some(len)) => len,
                Ok(None) => break,
                Err(_) => {
                    // Who breaks the protocol once is not listened to again.
                    peer.incoming.close();
                    self.membership.lose(source, DIED, &self.own);
                    break;
                }
            };
            peer.expect_reply(self.node);
            if peer.incoming.is_call_due(before) {
                peer.segment.messages().ring();
            }
            sink(Completion::Message { source, message: &buffer.as_flattened()[..len] });
            count += 1;
        }
        count
    }

    fn has_message(&self) -> bool {
        let mut peers = NodeId::all(u16::MAX).zip(&self.peers);
        peers.any(|(source, peer)| peer.incoming.is_ready(self.own.ring_from(source)))
    }

    /// Whether a ring that was full has room again.
    fn has_room_again(&self) -> bool {
        // Relaxed: see `count_full`.
        if self.full_count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.peers.iter().any(|peer| peer.has_room_again(self.node))
    }

    fn has_done(&self) -> bool {
        // Acquire: pairs with the Release in `post`.
        self.done_count.load(Ordering::Acquire) != 0
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

    fn object(&self, peer: NodeId, region: Region, deadline: Instant) -> Result<SharedObject> {
        self.membership.take(peer, region, deadline)
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
            self.has_message()
                || self.has_done()
                || self.has_room_again()
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
        self.own.messages().ring();
    }

    fn wait_until(&self, deadline: Instant, ready: &mut dyn FnMut() -> bool) -> bool {
        self.own.signals().wait(deadline, ready)
    }

    #[inline]
    fn ring(&self, peer: NodeId) {
        if let Some(peer) = self.peers.get(peer.index()) {
            peer.segment.signals().ring();
        }
    }

    fn epoch(&self) -> u64 {
        self.membership.epoch()
    }

    fn presence(&self, peer: NodeId) -> Presence {
        self.membership.presence(peer)
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
