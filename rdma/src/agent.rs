//! One-sided operations over links that have none, written once for all of them.
//!
//! A request becomes packets to the agent of its target, which does it and answers. What a peer
//! sends is hostile until checked: it names memory by a random key, and every range is compared
//! with the region's; a peer that breaks the protocol is lost, one that asks for what it may not
//! have is refused.
//!
//! Requests to a node are carried out in the order in which they were posted. A read may see what
//! was posted after it: its bytes are looked at when they are sent.

mod credit;
mod inbox;
mod keys;
mod outgoing;
mod peer;
mod pending;
mod refusal;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub(crate) use self::inbox::Correspondence;
use self::{
    credit::Grants,
    keys::{Announced, Keys},
    outgoing::{Outgoing, Parcel, Payload},
    peer::{Asked, Peer},
    pending::{Awaited, Reading, Waiting},
};
use crate::{
    Error, MESSAGE_LEN_MAX, Mapping, NodeId, Op, Presence, Region, RemoteAddr, Request, Result,
    Token,
    packet::{Head, Kind},
    primitive::{AtomicU32, Ordering},
    roster::{Departure, Roster},
    stream::Outlet,
};

/// What a node does with what it is asked, and what it asks of others.
#[derive(Debug)]
pub(crate) struct Agent {
    roster: Arc<Roster>,
    keys: Keys,
    // By node; `None` for those that are reached otherwise.
    peers: Vec<Option<Mutex<Peer>>>,
    // By node: the messages that it may send.
    grants: Vec<Grants>,
    // By node: links by which the peers' lives are watched, beside those over which all else goes.
    watches: Vec<Option<Mutex<Outgoing>>>,
    // Requests that ended without a reply.
    done: Mutex<VecDeque<(Token, Result<u64>)>>,
    // Entries of `done`, to look without its lock.
    done_count: AtomicU32,
    // Peers that have room for messages again, of which one was refused; changed with the peer's
    // lock.
    rooms: AtomicU32,
}

impl Agent {
    /// The agent of a node whose links go out at `outlets`, by node: the main one of each first,
    /// and none for those that are reached otherwise. At `watches` go only signs of life and of
    /// death.
    pub(crate) fn new(
        roster: Arc<Roster>,
        outlets: Vec<Vec<Box<dyn Outlet>>>,
        watches: Vec<Option<Box<dyn Outlet>>>,
    ) -> Self {
        let peer = |links: Vec<_>| (!links.is_empty()).then(|| Mutex::new(Peer::new(links)));
        let watch = |outlet: Option<_>| Some(Mutex::new(Outgoing::new(outlet?)));
        Self {
            roster,
            keys: Keys::default(),
            grants: outlets.iter().map(|_| Grants::new()).collect(),
            peers: outlets.into_iter().map(peer).collect(),
            watches: watches.into_iter().map(watch).collect(),
            done: Mutex::default(),
            done_count: AtomicU32::new(0),
            rooms: AtomicU32::new(0),
        }
    }

    /// Whether `peer` is gone, by whoever's word.
    pub(crate) fn has_lost(&self, peer: NodeId) -> bool {
        self.roster.presence(peer) != Presence::Here
    }

    /// Whether `peer` is reached by this agent, and has done all that changes memory there: what is
    /// done otherwise overtakes nothing.
    pub(crate) fn has_settled(&self, peer: NodeId) -> bool {
        self.peer(peer).is_some_and(|peer| !peer.is_closed() && peer.has_settled())
    }

    /// Lets every peer read and write `memory`, which is `region` here.
    pub(crate) fn register(&self, region: Region, memory: Arc<Mapping>) -> Result {
        let len = memory.len() as u64;
        let key = self.keys.register(memory)?;
        let head = Head { key, offset: u64::from(region.0), ..Head::new(Kind::Region) };
        self.tell_all(head, [len]);
        Ok(())
    }

    /// Bytes of a region that `peer` has announced.
    pub(crate) fn region_len(&self, peer: NodeId, region: Region) -> Option<u64> {
        self.keys.of_peer(peer, region).ok().map(|announced| announced.len)
    }

    /// Starts a request to `peer`; `false` where there is no room for it until another ends.
    ///
    /// # Safety
    ///
    /// As for [`Fabric::post`](crate::Fabric::post).
    pub(crate) unsafe fn post(&self, peer: NodeId, request: &Request) -> bool {
        let token = request.token;
        let Some(mut open) = self.peer(peer).filter(|peer| !peer.is_closed()) else {
            self.end(token, Err(self.roster.lost(peer)));
            return true;
        };
        match self.ask(&request.op) {
            Ok(Some(asked)) => {
                if !self.count_room(&mut open, |peer| peer.has_room_for(&asked)) {
                    return false;
                }
                open.post(token, asked);
                self.send(&mut open);
            }
            Ok(None) => self.end(token, Ok(0)),
            Err(error) => self.end(token, Err(error)),
        }
        true
    }

    /// Ends a read or a write that needs no wire, as its memory is not there, or no byte of it is
    /// meant; whether it was one.
    pub(crate) fn settle(&self, request: &Request) -> bool {
        let (at, len) = match request.op {
            Op::Read { source, target } => (source, target.len()),
            Op::Write { source, target } => (target, source.len()),
            _ => return false,
        };
        let found = self.keys.find(at, len as u64);
        let is_settled = found.is_err() || len == 0;
        if is_settled {
            self.end(request.token, found.map(|_| 0));
        }
        is_settled
    }

    /// What `op` becomes; `None` where there is nothing to do.
    fn ask(&self, op: &Op) -> Result<Option<Asked>> {
        let change = |kind, at: RemoteAddr, key, payload, is_answered| {
            let head = Head { key, offset: at.offset, ..Head::new(kind) };
            Ok(Some(Asked::Change { head, payload, is_answered }))
        };
        match *op {
            Op::Read { source, target } => {
                let (key, offset) = (self.keys.find(source, target.len() as u64)?, source.offset);
                let reading = Reading { key, offset, target, received: 0, is_arriving: false };
                Ok((!target.is_empty()).then_some(Asked::Read(reading)))
            }
            Op::Write { source, target } => {
                let key = self.keys.find(target, source.len() as u64)?;
                if source.is_empty() {
                    return Ok(None);
                }
                change(Kind::Write, target, key, Payload::Posted(source), true)
            }
            Op::FetchAdd { target, addend } => {
                let key = self.keys.find_word(target)?;
                change(Kind::FetchAdd, target, key, Payload::words([addend]), true)
            }
            Op::Swap { target, value } => {
                let key = self.keys.find_word(target)?;
                change(Kind::Swap, target, key, Payload::words([value]), true)
            }
            Op::CompareSwap { target, expected, desired } => {
                let key = self.keys.find_word(target)?;
                change(Kind::CompareSwap, target, key, Payload::words([expected, desired]), true)
            }
            Op::Signal { target, value } => {
                let key = self.keys.find_word(target)?;
                change(Kind::Signal, target, key, Payload::words([value]), false)
            }
            Op::Send { message, .. } => {
                let (len, capacity) = (message.len() as u64, MESSAGE_LEN_MAX as u64);
                if len > capacity {
                    return Err(Error::OutOfBounds { offset: 0, len, capacity });
                }
                Ok(Some(Asked::Message(Payload::Posted(message))))
            }
        }
    }

    /// Tells every peer something that has no reply.
    fn tell_all<const N: usize>(&self, head: Head, words: [u64; N]) {
        for peer in self.peers.iter().flatten() {
            let mut peer = lock(peer);
            peer.tell(head, words);
            self.send(&mut peer);
        }
    }

    /// Tells every peer who is not alive any more, over its watch too; a loss, only who is heard.
    fn tell_of_death(&self, head: Head) {
        for (peer, watch) in self.peers.iter().zip(&self.watches) {
            let Some(mut peer) = peer.as_ref().map(lock) else { continue };
            if head.kind == Kind::Lost && peer.is_faint {
                continue;
            }
            peer.tell(head, []);
            self.send(&mut peer);
            drop(peer);
            if let Some(mut watch) = watch.as_ref().map(lock) {
                tell_watch(&mut watch, head);
            }
        }
    }

    /// Takes note that these peers are heard, and no others.
    pub(crate) fn note_heard(&self, heard: &[NodeId]) {
        for (node, peer) in NodeId::all(self.roster.nodes()).zip(&self.peers) {
            if let Some(mut peer) = peer.as_ref().map(lock) {
                peer.is_faint = !heard.contains(&node);
            }
        }
    }

    /// Gives every peer a sign of life over each of its links.
    pub(crate) fn beat(&self) {
        for peer in self.peers.iter().flatten() {
            let mut peer = lock(peer);
            peer.beat();
            self.send(&mut peer);
        }
        for watch in self.watches.iter().flatten() {
            let mut watch = lock(watch);
            // As in `Peer::beat`.
            if !watch.is_waiting() {
                tell_watch(&mut watch, Head::new(Kind::Beat));
            }
        }
    }

    /// Sends to `peer` what waits, if something does, as far as the wires take it.
    pub(crate) fn flush(&self, peer: NodeId) {
        if let Some(mut peer) = self.peer(peer) {
            self.send(&mut peer);
        }
        if let Some(mut watch) = self.watch(peer).filter(|watch| watch.is_waiting()) {
            _ = watch.send(|_| {});
        }
    }

    fn send(&self, peer: &mut Peer) {
        peer.send(|token| self.end(token, Ok(0)));
    }

    /// Takes note that a message of `source` was handed out to the program; whether something is
    /// said about it.
    pub(crate) fn hand_out(&self, source: NodeId) -> bool {
        let Some(grants) = self.grants.get(source.index()) else { return false };
        if !grants.hand_out() {
            return false;
        }
        let Some(mut peer) = self.peer(source).filter(|peer| !peer.is_closed()) else {
            return false;
        };
        let is_said = peer.give_credit(grants);
        if is_said {
            self.send(&mut peer);
        }
        is_said
    }

    /// Takes note that a message of `source` has come; `false` where it had no credit for it.
    fn take_in(&self, source: NodeId) -> bool {
        let Some(grants) = self.grants.get(source.index()) else { return false };
        // Credit is given with the lock; it may just be.
        grants.take_in() || self.peer(source).is_some_and(|_peer| grants.take_in())
    }

    /// Whether a peer has room for messages again, of which one was refused.
    pub(crate) fn has_room_again(&self) -> bool {
        // Acquire: pairs with the Release in `count_room`.
        self.rooms.load(Ordering::Acquire) != 0
    }

    /// Does what may change whether `peer` has room again.
    fn count_room<T>(&self, peer: &mut Peer, change: impl FnOnce(&mut Peer) -> T) -> T {
        let before = peer.credits.has_room_again();
        let result = change(peer);
        match (before, peer.credits.has_room_again()) {
            // Release: pairs with the Acquire in `has_room_again`.
            (false, true) => _ = self.rooms.fetch_add(1, Ordering::Release),
            // Relaxed: who still sees it finds the queue full.
            (true, false) => _ = self.rooms.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
        result
    }

    /// Takes note that a request has ended, to be handed out by the next poll.
    fn end(&self, token: Token, result: Result<u64>) {
        self.done().push_back((token, result));
        // Release: pairs with the Acquire in `has_done`.
        self.done_count.fetch_add(1, Ordering::Release);
    }

    /// Whether requests have ended that were not handed out.
    pub(crate) fn has_done(&self) -> bool {
        // Acquire: pairs with the Release in `end`.
        self.done_count.load(Ordering::Acquire) != 0
    }

    /// A request that has ended.
    pub(crate) fn take_done(&self) -> Option<(Token, Result<u64>)> {
        if !self.has_done() {
            return None;
        }
        let taken = self.done().pop_front();
        if taken.is_some() {
            // Relaxed: a count too high is a look too many.
            self.done_count.fetch_sub(1, Ordering::Relaxed);
        }
        taken
    }

    /// Takes `peer` for gone, unless it was before: what waits for it fails, and the others are
    /// told. Whether it is news.
    pub(crate) fn lose(&self, peer: NodeId, departure: Departure) -> bool {
        let is_news = self.roster.lose(peer, departure);
        let tokens = self.peer(peer).map(|mut peer| self.count_room(&mut peer, Peer::close));
        if let Some(mut watch) = self.watch(peer) {
            watch.close();
        }
        for token in tokens.into_iter().flatten() {
            self.end(token, Err(self.roster.lost(peer)));
        }
        if is_news && self.roster.presence(peer) == Presence::Died {
            let head = Head { offset: u64::from(peer.number()), ..Head::new(Kind::Lost) };
            self.tell_of_death(head);
        }
        is_news
    }

    /// Gives up a stripe to `peer`, over which nothing comes any more: what was to come over it is
    /// asked for again over the main link.
    pub(crate) fn give_up(&self, peer: NodeId, link: usize) {
        if let Some(mut peer) = self.peer(peer) {
            peer.give_up(link);
            self.send(&mut peer);
        }
    }

    /// Tells every peer that this node leaves, and means to.
    pub(crate) fn say_goodbye(&self) {
        let died = self.roster.first_dead().map_or(0, |node| u64::from(node.number()) + 1);
        self.roster.leave();
        self.tell_of_death(Head { offset: died, ..Head::new(Kind::Goodbye) });
    }

    /// What there is to say to `peer`, if it is reached by this agent.
    fn peer(&self, peer: NodeId) -> Option<MutexGuard<'_, Peer>> {
        self.peers.get(peer.index())?.as_ref().map(lock)
    }

    fn watch(&self, peer: NodeId) -> Option<MutexGuard<'_, Outgoing>> {
        self.watches.get(peer.index())?.as_ref().map(lock)
    }

    fn done(&self) -> MutexGuard<'_, VecDeque<(Token, Result<u64>)>> {
        lock(&self.done)
    }
}

fn tell_watch(watch: &mut Outgoing, head: Head) {
    watch.request(Parcel::new(head, Payload::words([]), None));
    // One that cannot be sent over is found by who reads it.
    _ = watch.send(|_| {});
}

/// What was left whole by a thread that panicked with it, as every step is.
fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(loom)))]
mod tests;
