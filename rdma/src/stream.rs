//! A link as its two ends see it: packets go in at an [`Outlet`], and come out of an [`Inlet`], in
//! order and whole; between them is a stream of bytes.

use std::{fmt, io, os::fd::RawFd, ptr::NonNull, slice, time::Instant};

use crate::{
    Error, Result, Token, copy_in, copy_out,
    packet::{HEAD_LEN, Head, Kind, SHORT_MAX},
};

/// Bytes of a payload that others may write meanwhile and that is to be read whole all the same.
const WORD_LEN: usize = 8;

/// Bytes that are to be sent, and that other processes may write meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    start: NonNull<u8>,
    len: usize,
}

impl Source {
    /// # Safety
    ///
    /// The `len` bytes at `start` stay mapped while the source is used, and no `&mut` to them is.
    pub(crate) unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What follows the first `count` bytes.
    pub(crate) fn skip(&self, count: usize) -> Self {
        assert!(count <= self.len, "a source is not longer than it is");
        // SAFETY: `count` is at most the length (asserted) of what `new`'s caller vouches for.
        let start = unsafe { self.start.add(count) };
        Self { start, len: self.len - count }
    }

    /// The first `count` bytes, or all.
    pub(crate) fn take(&self, count: usize) -> Self {
        Self { start: self.start, len: self.len.min(count) }
    }

    /// Appends a copy to `target`.
    pub(crate) fn copy_to(&self, target: &mut Vec<u8>) {
        target.reserve(self.len);
        let spare = &mut target.spare_capacity_mut()[..self.len];
        // SAFETY: the bytes of the spare capacity are this vector's alone, and are only written.
        let spare = unsafe { slice::from_raw_parts_mut(spare.as_mut_ptr().cast(), self.len) };
        // SAFETY: `new`'s caller vouches for the source, which is no memory of `target`'s.
        unsafe { copy_out(self.start, spare) };
        let len = target.len() + self.len;
        // SAFETY: `copy_out` has written them.
        unsafe { target.set_len(len) };
    }

    /// For the system, which reads it as another process would.
    pub(crate) fn part(&self) -> libc::iovec {
        libc::iovec { iov_base: self.start.as_ptr().cast(), iov_len: self.len }
    }
}

/// Appends what follows the first `already` bytes of the packet of `head` and `payload` to
/// `buffer`, which gets no longer than `len_max`, as far as there is room; returns how many bytes
/// that were.
///
/// A packet with no more than a word waits for a buffer that takes all of it: a word that is copied
/// in two parts may be two halves of different values.
pub(crate) fn pack(
    head: &[u8; HEAD_LEN],
    payload: Source,
    already: usize,
    buffer: &mut Vec<u8>,
    len_max: usize,
) -> usize {
    let room = len_max - buffer.len();
    if already == 0 && payload.len() <= WORD_LEN && HEAD_LEN + payload.len() > room {
        return 0;
    }
    let of_head = &head[already.min(HEAD_LEN)..];
    let of_head = &of_head[..of_head.len().min(room)];
    buffer.extend_from_slice(of_head);
    let rest = payload.skip(already.saturating_sub(HEAD_LEN)).take(room - of_head.len());
    rest.copy_to(buffer);
    of_head.len() + rest.len()
}

/// Where the payload of a packet goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// To memory, piece by piece.
    Memory(Target),
    /// Nowhere.
    Nowhere,
    /// To whoever handles the packet, whole.
    Whole,
}

/// Memory that receives bytes, and that other processes may read and write meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: who makes a target vouches for its memory, whichever thread fills it.
unsafe impl Send for Target {}

impl Target {
    /// # Safety
    ///
    /// The `len` bytes at `start` stay mapped until the packet has been received, and are
    /// accessed by nobody in a way that a write by another process would break.
    pub(crate) unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Writes the first of `bytes`, and moves on to what follows; returns how many those were.
    fn fill(&mut self, bytes: &[u8]) -> usize {
        let count = self.len.min(bytes.len());
        // SAFETY: `count` is at most the length of what `new`'s caller vouches for; `bytes` are
        // this process's own.
        unsafe { copy_in(&bytes[..count], self.start) };
        self.advance(count);
        count
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.len, "what was received has room");
        // SAFETY: `count` is at most the length (asserted) of what `new`'s caller vouches for.
        self.start = unsafe { self.start.add(count) };
        self.len -= count;
    }

    /// For the system, which writes it as another process would.
    pub(crate) fn part(&self) -> libc::iovec {
        libc::iovec { iov_base: self.start.as_ptr().cast(), iov_len: self.len }
    }
}

/// The end of a link where packets go in.
pub(crate) trait Outlet: fmt::Debug + Send {
    /// Takes in the packet of `head` and `payload`, of which `already` bytes were taken before, as
    /// far as there is room; returns how many of its bytes are taken in now. What is not, is
    /// offered again, with nothing between.
    fn push(&mut self, head: &[u8; HEAD_LEN], payload: Source, already: usize)
    -> io::Result<usize>;

    /// Sends what was taken in, as far as the wire takes it; whether that is all.
    fn flush(&mut self) -> io::Result<bool>;

    /// Sends nothing more. What was taken in is still sent, as far as the wire takes it at once.
    fn close(&mut self);
}

/// The end of a link where packets come out.
pub(crate) trait Inlet: fmt::Debug + Send {
    /// Hands what has come to `inbox`, without waiting, and returns how many bytes that was; there
    /// may be more, unless it was nothing. An error means that nothing more comes.
    fn receive(&mut self, inbox: &mut dyn Inbox) -> Result<usize>;

    /// Whether only [`receive`](Self::receive) tells that something has come, and not the system.
    fn is_polled(&self) -> bool {
        false
    }

    /// Gets ready for its reader to block; whether something has come already.
    fn arm(&mut self) -> bool {
        false
    }

    /// When it must be received from at the latest, although nothing comes.
    fn wake_at(&mut self) -> Option<Instant> {
        None
    }

    /// Becomes readable after [`arm`](Self::arm), where the system is not told otherwise.
    fn descriptor(&self) -> Option<RawFd> {
        None
    }

    /// Whether all that was sent has arrived, as far as that can be told.
    fn is_quiet(&mut self) -> bool {
        true
    }

    /// Gives up on the peer: what is under way ends.
    fn close(&mut self, _inbox: &mut dyn Inbox) {}
}

/// Who receives packets.
pub(crate) trait Inbox {
    /// A packet begins: where its payload is to go.
    fn open(&mut self, head: &Head) -> Result<Place>;

    /// It is there, with its payload if that was to come whole.
    fn close(&mut self, head: &Head, payload: &[u8]) -> Result;

    /// An operation has ended that the wire has carried out by itself.
    fn end(&mut self, token: Token, result: Result<u64>);
}

/// An inbox for packets of some kinds: who sends others breaks the protocol.
pub(crate) struct Strict<'a> {
    pub(crate) inbox: &'a mut dyn Inbox,
    pub(crate) takes: &'a dyn Fn(Kind) -> bool,
}

impl Inbox for Strict<'_> {
    fn open(&mut self, head: &Head) -> Result<Place> {
        if !(self.takes)(head.kind) {
            let reason = format!("a {:?} packet, over a link that carries none", head.kind);
            return Err(Error::protocol(reason));
        }
        self.inbox.open(head)
    }

    fn close(&mut self, head: &Head, payload: &[u8]) -> Result {
        self.inbox.close(head, payload)
    }

    fn end(&mut self, token: Token, result: Result<u64>) {
        self.inbox.end(token, result);
    }
}

/// Makes packets of a stream of bytes that comes in pieces.
#[derive(Debug)]
pub(crate) struct Assembler {
    // The head, and then the payload, of a packet that has not come whole.
    stash: Vec<u8>,
    // A packet whose payload is coming.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    head: Head,
    place: Place,
    // Bytes of the payload that have not come.
    left: usize,
}

impl Assembler {
    pub(crate) fn new() -> Self {
        Self { stash: Vec::with_capacity(SHORT_MAX), open: None }
    }

    /// Memory to which the next bytes of the stream go, if there is some.
    pub(crate) fn target(&self) -> Option<Target> {
        match self.open {
            Some(Open { place: Place::Memory(target), .. }) => Some(target),
            _ => None,
        }
    }

    /// Takes note that the next `count` bytes of the stream were written to the target.
    pub(crate) fn placed(&mut self, count: usize, inbox: &mut dyn Inbox) -> Result {
        if let Some(Open { place: Place::Memory(target), left, .. }) = &mut self.open {
            target.advance(count);
            *left -= count;
        }
        self.close_if_whole(inbox)
    }

    /// Takes in the next bytes of the stream.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], inbox: &mut dyn Inbox) -> Result {
        while !bytes.is_empty() {
            let count = match &mut self.open {
                None => self.feed_head(bytes, inbox)?,
                Some(open) => {
                    let part = &bytes[..bytes.len().min(open.left)];
                    match &mut open.place {
                        Place::Memory(target) => _ = target.fill(part),
                        Place::Nowhere => {}
                        Place::Whole if self.stash.is_empty() && part.len() == open.left => {
                            let head = open.head;
                            self.open = None;
                            inbox.close(&head, part)?;
                            bytes = &bytes[part.len()..];
                            continue;
                        }
                        Place::Whole => self.stash.extend_from_slice(part),
                    }
                    open.left -= part.len();
                    part.len()
                }
            };
            bytes = &bytes[count..];
            self.close_if_whole(inbox)?;
        }
        Ok(())
    }

    /// Takes in bytes of a head; returns how many.
    fn feed_head(&mut self, bytes: &[u8], inbox: &mut dyn Inbox) -> Result<usize> {
        let (head, count) = match bytes.first_chunk() {
            Some(head) if self.stash.is_empty() => (*head, HEAD_LEN),
            _ => {
                let count = bytes.len().min(HEAD_LEN - self.stash.len());
                self.stash.extend_from_slice(&bytes[..count]);
                let Some(head) = self.stash.first_chunk() else { return Ok(count) };
                (*head, count)
            }
        };
        self.stash.clear();
        let head = Head::decode(&head)?;
        let place = inbox.open(&head)?;
        self.open = Some(Open { head, place, left: head.payload_len() });
        Ok(count)
    }

    fn close_if_whole(&mut self, inbox: &mut dyn Inbox) -> Result {
        let Some(open) = self.open.take_if(|open| open.left == 0) else { return Ok(()) };
        let closed = inbox.close(&open.head, &self.stash);
        self.stash.clear();
        closed
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
