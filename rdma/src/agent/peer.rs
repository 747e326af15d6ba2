//! All that a node has to say to a peer, over one link or several.
//!
//! The first link is the main one: what has an order goes over it. The others are *stripes*. Reads
//! are spread over all links, long ones in parts, unless something that was posted before may not
//! have been carried out. A stripe that breaks is given up, and its reads go over the main link.

use std::collections::HashMap;

use super::{
    credit::{Credits, Grants},
    outgoing::{Outgoing, Parcel, Payload},
    pending::{Awaited, Pending, Reading, Waiting},
};
use crate::{
    Result, Token,
    packet::{Head, Kind, PAYLOAD_MAX},
    stream::Outlet,
};

/// Requests that may wait for their replies; more are posted later.
pub(super) const PENDING_MAX: usize = 1024;
/// The main link's place among the links.
const MAIN: usize = 0;
/// Bytes of the shortest part of a read: as many as a packet carries.
const PART_LEN: usize = PAYLOAD_MAX;
/// Parts that a read is cut into at most.
const PARTS_MAX: usize = 16;

/// What a request becomes.
pub(super) enum Asked {
    /// It changes nothing: it may go over any link.
    Read(Reading),
    /// It has its place among the others; what is not answered completes when it is sent.
    Change { head: Head, payload: Payload, is_answered: bool },
    /// Likewise, if the peer has room for it.
    Message(Payload),
}

/// What is said to a peer, and what is awaited of it.
#[derive(Debug)]
pub(super) struct Peer {
    // The main one first.
    links: Vec<Outgoing>,
    pending: Pending,
    pub(super) credits: Credits,
    /// Little is heard of it: it is told of no loss.
    pub(super) is_faint: bool,
    // Reads in parts, by number.
    wholes: HashMap<u64, Whole>,
    wholes_made: u64,
    // Requests that were posted to the main link, ...
    posted: u64,
    // ... the last of them that changes the peer's memory, ...
    changed: u64,
    // ... and the last of which it is known that it was carried out, with all before it.
    settled: u64,
}

/// A read in parts.
#[derive(Debug)]
struct Whole {
    // Parts that have not ended.
    left: usize,
    result: Result<u64>,
}

impl Peer {
    /// A peer that is reached at `outlets`: there is one at least.
    pub(super) fn new(outlets: Vec<Box<dyn Outlet>>) -> Self {
        assert!(!outlets.is_empty(), "a peer has a main link");
        let links = outlets.into_iter().map(Outgoing::new).collect();
        Self {
            links,
            pending: Pending::default(),
            credits: Credits::new(),
            is_faint: false,
            wholes: HashMap::new(),
            wholes_made: 0,
            posted: 0,
            changed: 0,
            settled: 0,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.links[MAIN].is_closed()
    }

    /// Whether everything that changes the peer's memory is known to have been carried out.
    pub(super) fn has_settled(&self) -> bool {
        self.changed <= self.settled
    }

    /// Whether a request may be posted; it is then.
    #[must_use]
    pub(super) fn has_room_for(&mut self, asked: &Asked) -> bool {
        if !self.links[MAIN].has_room() || self.pending.len() + PARTS_MAX > PENDING_MAX {
            // There is when something completes, which is told anyhow.
            self.credits.want_nothing();
            return false;
        }
        !matches!(asked, Asked::Message(_)) || self.credits.spend()
    }

    /// Takes in a request, to be sent.
    pub(super) fn post(&mut self, token: Token, asked: Asked) {
        match asked {
            Asked::Read(reading) => self.read(token, reading),
            Asked::Message(payload) => {
                self.posted += 1;
                let head = Head::new(Kind::Message);
                self.links[MAIN].request(Parcel::new(head, payload, Some(token)));
            }
            Asked::Change { head, payload, is_answered: false } => {
                self.posted += 1;
                self.changed = self.posted;
                self.links[MAIN].request(Parcel::new(head, payload, Some(token)));
            }
            Asked::Change { head, payload, is_answered: true } => {
                self.posted += 1;
                self.changed = self.posted;
                let (awaited, place) = (Awaited::Done, self.posted);
                let waiting = Waiting { token, awaited, link: MAIN, place, whole: None };
                let head = Head { request: self.pending.insert(waiting), ..head };
                self.links[MAIN].request(Parcel::new(head, payload, None));
            }
        }
    }

    fn read(&mut self, token: Token, reading: Reading) {
        if !self.has_settled() || self.links.len() == 1 {
            return self.ask(MAIN, token, None, reading);
        }
        let len = reading.target.len();
        let part_len = len.div_ceil(PARTS_MAX).max(PART_LEN);
        if len <= part_len {
            return self.ask(self.idlest(), token, None, reading);
        }
        let number = self.wholes_made;
        self.wholes_made += 1;
        self.wholes.insert(number, Whole { left: len.div_ceil(part_len), result: Ok(0) });
        for part in reading.parts(part_len) {
            self.ask(self.idlest(), token, Some(number), part);
        }
    }

    /// Asks for bytes over a link.
    fn ask(&mut self, link: usize, token: Token, whole: Option<u64>, reading: Reading) {
        let len = reading.target.len() as u64;
        let mut place = 0;
        if link == MAIN {
            self.posted += 1;
            place = self.posted;
        }
        let Reading { key, offset, .. } = reading;
        let awaited = Awaited::Bytes(reading);
        let request = self.pending.insert(Waiting { token, awaited, link, place, whole });
        let head = Head { request, key, offset, ..Head::new(Kind::Read) };
        self.links[link].load += len;
        self.links[link].request(Parcel::new(head, Payload::words([len]), None));
    }

    /// The link over which the fewest bytes are to come.
    fn idlest(&self) -> usize {
        let open = (0..self.links.len()).filter(|&link| !self.links[link].is_closed());
        open.min_by_key(|&link| self.links[link].load).unwrap_or(MAIN)
    }

    /// Says what has no reply.
    pub(super) fn tell<const N: usize>(&mut self, head: Head, words: [u64; N]) {
        self.links[MAIN].request(Parcel::new(head, Payload::words(words), None));
    }

    /// Gives a sign of life over every link but those over which something waits to go: that will
    /// be sign enough, and a peer that reads nothing gets no heap of them.
    pub(super) fn beat(&mut self) {
        for link in self.links.iter_mut().filter(|link| !link.is_waiting()) {
            link.request(Parcel::new(Head::new(Kind::Beat), Payload::words([]), None));
        }
    }

    /// Takes in a reply to what came over a link; `false` where the peer has asked for more than it
    /// may.
    #[must_use]
    pub(super) fn reply(&mut self, link: usize, parcel: Parcel) -> bool {
        self.links[link].reply(parcel)
    }

    /// Gives the peer the credit that it is owed; whether it has. Who reads no replies is given
    /// none, and sends no more messages.
    pub(super) fn give_credit(&mut self, grants: &Grants) -> bool {
        if !self.links[MAIN].has_room_to_reply() {
            return false;
        }
        let head = Head { offset: grants.give(), ..Head::new(Kind::Credit) };
        self.links[MAIN].reply(Parcel::new(head, Payload::words([]), None))
    }

    /// The request of that number, if it was made over that link and waits.
    pub(super) fn waiting(&mut self, link: usize, number: u64) -> Option<Waiting> {
        self.pending.get_mut(number).copied().filter(|waiting| waiting.link == link)
    }

    /// The read of that number, if it was asked for over that link and waits.
    pub(super) fn reading(&mut self, link: usize, number: u64) -> Option<&mut Reading> {
        match self.pending.get_mut(number)? {
            Waiting { awaited: Awaited::Bytes(reading), link: its, .. } if *its == link => {
                Some(reading)
            }
            _ => None,
        }
    }

    /// Whether the request of that number is a write that is still being sent over that link.
    pub(super) fn is_sending(&self, link: usize, number: u64) -> bool {
        self.links[link].is_sending(number)
    }

    /// Takes note that a packet has come whole, of `count` bytes that a request waits for.
    pub(super) fn receive(&mut self, number: u64, count: usize) {
        let waiting = self.pending.get_mut(number);
        if let Some(Waiting { awaited: Awaited::Bytes(reading), .. }) = waiting {
            reading.received += count;
            reading.is_arriving = false;
        }
    }

    /// Ends a request; returns what the poster is to be told, once all parts have ended.
    pub(super) fn end(&mut self, number: u64, result: Result<u64>) -> Option<(Token, Result<u64>)> {
        let Waiting { token, awaited, link, place, whole } = self.pending.remove(number)?;
        self.settled = self.settled.max(place);
        if let Awaited::Bytes(reading) = awaited {
            self.links[link].load -= reading.target.len() as u64;
        }
        let Some(number) = whole else { return Some((token, result)) };
        let whole = self.wholes.get_mut(&number)?;
        whole.left -= 1;
        if whole.result.is_ok() {
            whole.result = result;
        }
        if whole.left > 0 {
            return None;
        }
        self.wholes.remove(&number).map(|whole| (token, whole.result))
    }

    /// Sends as far as the wires take it; tells of requests that complete by being sent.
    pub(super) fn send(&mut self, mut sent: impl FnMut(Token)) {
        for link in self.links.iter_mut().filter(|link| link.is_waiting()) {
            // A link that cannot be sent over is one from which nothing comes either: its end is
            // found by who reads it.
            _ = link.send(&mut sent);
        }
    }

    /// Gives up a stripe: asks over the main link for what was to come over it.
    pub(super) fn give_up(&mut self, link: usize) {
        assert_ne!(link, MAIN, "without its main link, a peer is lost");
        self.links[link].close();
        for Waiting { token, awaited, whole, .. } in self.pending.drain(|all| all.link == link) {
            if let Awaited::Bytes(reading) = awaited {
                let again = Reading { received: 0, is_arriving: false, ..reading };
                self.ask(MAIN, token, whole, again);
            }
        }
    }

    /// Gives up on the peer; returns the names of all that will not complete.
    pub(super) fn close(&mut self) -> Vec<Token> {
        self.credits.want_nothing();
        let mut tokens: Vec<Token> = self.links.iter_mut().flat_map(Outgoing::close).collect();
        for Waiting { token, whole, .. } in self.pending.drain(|_| true) {
            // The first part that ends so ends all.
            if whole.is_none_or(|number| self.wholes.remove(&number).is_some()) {
                tokens.push(token);
            }
        }
        tokens
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
