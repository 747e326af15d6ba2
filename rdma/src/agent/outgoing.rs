//! What is on its way to a peer.

use std::{collections::VecDeque, io, ptr::NonNull, sync::Arc};

use super::{credit::GIFTS_MAX, peer::PENDING_MAX};
use crate::{
    Mapping, Token,
    packet::{HEAD_LEN, Head, Kind, PAYLOAD_MAX},
    stream::{Outlet, Source},
};

/// Requests that may wait to be sent.
const REQUESTS_MAX: usize = 256;
/// Replies that may wait to be sent: to as many requests as a peer may have open, and the credit
/// that it may be given.
const REPLIES_MAX: usize = PENDING_MAX + GIFTS_MAX;

/// A request or a reply: one packet, or as many as its payload takes.
#[derive(Debug)]
pub(super) struct Parcel {
    /// Of the first packet, without its length.
    pub(super) head: Head,
    pub(super) payload: Payload,
    /// Completes when all of it is sent; for what has no reply.
    pub(super) token: Option<Token>,
    // Bytes of the payload in packets that are sent.
    sent: u64,
    // Bytes of the packet that is being sent.
    taken: usize,
}

/// Where the payload of a parcel is.
#[derive(Debug)]
pub(super) enum Payload {
    /// In words here.
    Words([u64; 4], usize),
    /// In memory that the poster keeps as it is until the request completes.
    Posted(NonNull<[u8]>),
    /// In a region of this node: offset and length.
    Mapped(Arc<Mapping>, u64, u64),
}

// SAFETY: the posted memory is given to the fabric until the request completes, whichever thread
// sends it.
unsafe impl Send for Payload {}

impl Payload {
    pub(super) fn words<const N: usize>(words: [u64; N]) -> Self {
        let mut all = [0; 4];
        all[..N].copy_from_slice(&words.map(u64::to_le));
        Self::Words(all, N)
    }

    fn len(&self) -> u64 {
        match self {
            Self::Words(_, count) => 8 * *count as u64,
            Self::Posted(bytes) => bytes.len() as u64,
            Self::Mapped(_, _, len) => *len,
        }
    }

    /// `len` bytes of it from `start` on, which are there.
    fn source(&self, start: u64, len: usize) -> Source {
        let first: NonNull<u8> = match self {
            Self::Words(words, _) => NonNull::from(words).cast(),
            Self::Posted(bytes) => bytes.cast(),
            Self::Mapped(memory, offset, _) => {
                memory.range(*offset, 0).expect("a reply's range was checked when it was made")
            }
        };
        assert!(start + len as u64 <= self.len(), "a part of a payload lies inside");
        let start = usize::try_from(start).expect("an offset in memory is an address");
        // SAFETY: `start` is inside the payload (asserted), which is one allocation.
        let first = unsafe { first.add(start) };
        // SAFETY: words are borrowed by the caller's borrow of `self`; posted memory stays as it is
        // until the request completes, which none does that waits here (`is_sending`); a mapping
        // is held.
        unsafe { Source::new(first, len) }
    }
}

impl Parcel {
    pub(super) fn new(head: Head, payload: Payload, token: Option<Token>) -> Self {
        Self { head, payload, token, sent: 0, taken: 0 }
    }

    /// Offers the packet that is next, of `len_max` bytes of payload at most, to `outlet`; whether
    /// it was taken.
    fn push(&mut self, outlet: &mut dyn Outlet, len_max: usize) -> io::Result<bool> {
        let rest = self.payload.len() - self.sent;
        let len = usize::try_from(rest).map_or(len_max, |rest| rest.min(len_max));
        let head = Head {
            len: u32::try_from(len).expect("a packet is small"),
            is_last: len as u64 == rest,
            offset: self.head.offset + self.sent,
            ..self.head
        };
        let source = self.payload.source(self.sent, len);
        self.taken = outlet.push(&head.encode(), source, self.taken)?;
        if self.taken < HEAD_LEN + len {
            return Ok(false);
        }
        (self.sent, self.taken) = (self.sent + len as u64, 0);
        Ok(true)
    }

    fn is_sent(&self) -> bool {
        self.sent == self.payload.len() && self.taken == 0
    }
}

/// Everything that a node has to say over a link.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// Bytes that were asked for over it, and have not all come.
    pub(super) load: u64,
    outlet: Box<dyn Outlet>,
    requests: VecDeque<Parcel>,
    replies: VecDeque<Parcel>,
    // The packet that was taken in part is the first of the replies, not of the requests.
    is_replying: bool,
    is_closed: bool,
    // The wire has taken all that the outlet had taken in.
    is_flushed: bool,
}

impl Outgoing {
    pub(super) fn new(outlet: Box<dyn Outlet>) -> Self {
        Self {
            load: 0,
            outlet,
            requests: VecDeque::new(),
            replies: VecDeque::new(),
            is_replying: false,
            is_closed: false,
            is_flushed: true,
        }
    }

    /// Whether another request may be posted.
    pub(super) fn has_room(&self) -> bool {
        self.requests.len() < REQUESTS_MAX
    }

    pub(super) fn request(&mut self, parcel: Parcel) {
        if !self.is_closed {
            self.requests.push_back(parcel);
        }
    }

    /// Takes in a reply; `false` where the peer has asked for more than it may.
    #[must_use]
    pub(super) fn reply(&mut self, parcel: Parcel) -> bool {
        if !self.is_closed {
            self.replies.push_back(parcel);
        }
        self.replies.len() <= REPLIES_MAX
    }

    /// Whether the peer reads the replies that it gets.
    pub(super) fn has_room_to_reply(&self) -> bool {
        self.replies.len() < REPLIES_MAX
    }

    /// Whether something waits to be sent.
    pub(super) fn is_waiting(&self) -> bool {
        self.has_parcels() || !self.is_flushed
    }

    fn has_parcels(&self) -> bool {
        !(self.requests.is_empty() && self.replies.is_empty())
    }

    /// Whether the write of that number is not all sent: its memory is still read.
    pub(super) fn is_sending(&self, number: u64) -> bool {
        let is_it = |head: &Head| head.kind == Kind::Write && head.request == number;
        self.requests.iter().any(|parcel| is_it(&parcel.head))
    }

    /// Sends as far as the wire takes it; tells of requests that complete by being sent.
    ///
    /// Requests go in the order in which they were posted. Replies take turns, packet by packet, so
    /// that a short one need not wait for a long one; and so do the two queues.
    pub(super) fn send(&mut self, mut sent: impl FnMut(Token)) -> io::Result<()> {
        while self.has_parcels() {
            let is_reply = if self.requests.is_empty() {
                true
            } else {
                self.is_replying && !self.replies.is_empty()
            };
            let queue = if is_reply { &mut self.replies } else { &mut self.requests };
            let Some(parcel) = queue.front_mut() else { break };
            self.is_replying = is_reply;
            if !parcel.push(&mut *self.outlet, PAYLOAD_MAX)? {
                break;
            }
            if let Some(done) = queue.pop_front_if(|parcel| parcel.is_sent()) {
                done.token.into_iter().for_each(&mut sent);
            } else if is_reply {
                queue.rotate_left(1);
            }
            self.is_replying = !is_reply;
        }
        self.is_flushed = self.outlet.flush()?;
        Ok(())
    }

    /// Sends nothing more; returns the names of those that would have completed by being sent.
    pub(super) fn close(&mut self) -> Vec<Token> {
        self.is_closed = true;
        self.replies.clear();
        let unsent = self.requests.drain(..).filter_map(|parcel| parcel.token).collect();
        self.outlet.close();
        unsent
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
