//! A link over a reliable connection, whose devices read and write memory by themselves.
//!
//! Packets are a stream of bytes, cut into messages; reads and writes need no packets.

use std::{
    collections::{HashMap, VecDeque},
    fmt, io,
    os::fd::{AsRawFd, RawFd},
    ptr::NonNull,
};

use crate::{
    Error, MESSAGE_LEN_MAX, NodeId, Op, Request, Result, Token,
    packet::HEAD_LEN,
    stream::{Assembler, Inbox, Inlet, Outlet, Source, pack},
    verbs::{
        Held, Status,
        rc::{Event, Failure, Rc},
    },
};

/// Bit of a token that marks a message with packets.
const LETTER: u64 = 1 << 62;
/// Messages with packets that may be under way.
const LETTERS_MAX: usize = 64;

/// What carries messages to a peer and from it, and reads and writes the peer's memory. It breaks
/// as a whole.
pub(crate) trait Wire: fmt::Debug + Send {
    /// Takes the requests of `batch` in order, and returns how many. Each ends once.
    ///
    /// # Safety
    ///
    /// As for [`Rc::post`].
    unsafe fn post(&mut self, batch: &[Request]) -> usize;

    /// Hands what has ended and what has come to `sink`, without waiting.
    fn poll(&mut self, sink: &mut dyn FnMut(Event<'_>));

    /// Why it is broken, if it is.
    fn lost(&self) -> Option<Status>;

    /// Breaks it: the next poll ends everything.
    fn abandon(&mut self);

    /// Gets ready to tell of what comes next.
    fn arm(&mut self) {}

    /// Becomes readable after [`arm`](Self::arm).
    fn descriptor(&self) -> Option<RawFd> {
        None
    }
}

impl Wire for Rc {
    unsafe fn post(&mut self, batch: &[Request]) -> usize {
        // SAFETY: passed on to the caller.
        unsafe { Self::post(self, batch) }
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        Self::poll(self, sink);
    }

    fn lost(&self) -> Option<Status> {
        Self::lost(self)
    }

    fn abandon(&mut self) {
        Self::abandon(self);
    }

    fn arm(&mut self) {
        self.disarm();
        // A device that cannot tell is looked at when signs of life are due.
        _ = Self::arm(self);
    }

    fn descriptor(&self) -> Option<RawFd> {
        Self::descriptor(self).map(|descriptor| descriptor.as_raw_fd())
    }
}

/// A node's end of a connection: what its ends share.
#[derive(Debug)]
struct End<W> {
    wire: W,
    peer: NodeId,
    // The message that is being filled.
    open: Vec<u8>,
    // Messages that the wire reads, by their tokens.
    letters: HashMap<u64, Box<[u8]>>,
    // Messages that the wire has no room for yet.
    waiting: VecDeque<u64>,
    next: u64,
    arrived: Vec<u8>,
    ended: Vec<(Token, Result<u64, Failure>)>,
}

impl<W: Wire> End<W> {
    fn has_room(&self) -> bool {
        self.letters.len() < LETTERS_MAX
    }

    /// Hands the message that is being filled to the wire.
    fn close_letter(&mut self) {
        if !self.open.is_empty() {
            let token = LETTER | self.next;
            self.next += 1;
            self.letters.insert(token, std::mem::take(&mut self.open).into());
            self.waiting.push_back(token);
        }
        self.post();
    }

    fn post(&mut self) {
        while let Some(token) = self.waiting.front() {
            let message = NonNull::from(&*self.letters[token]);
            let op = Op::Send { target: self.peer, message };
            // SAFETY: the bytes stay where they are, in their box, until the wire has done with
            // them, and are only read.
            if unsafe { self.wire.post(&[Request { token: Token(*token), op }]) } == 0 {
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// Takes in what the wire has; how much that was.
    fn poll(&mut self) -> usize {
        let Self { wire, letters, arrived, ended, .. } = self;
        let mut count = 0;
        wire.poll(&mut |event| match event {
            Event::Message(bytes) => {
                arrived.extend_from_slice(bytes);
                count += bytes.len();
            }
            Event::Done { token, .. } if token.0 & LETTER != 0 => _ = letters.remove(&token.0),
            Event::Done { token, result } => {
                ended.push((token, result));
                count += 8;
            }
        });
        self.post();
        count
    }
}

/// A connection, to be asked for reads and writes.
#[derive(Debug)]
pub(crate) struct Native<W = Rc>(Held<End<W>>);

impl<W: Wire + 'static> Native<W> {
    /// Starts a read or a write; `false` where there is no room for it until another ends. `None`
    /// for what is neither, and where the connection is broken: it is the agent's.
    ///
    /// # Safety
    ///
    /// As for [`Fabric::post`](crate::Fabric::post).
    pub(crate) unsafe fn post(&self, request: &Request) -> Option<bool> {
        match request.op {
            Op::Read { .. } | Op::Write { .. } => {
                let batch = std::slice::from_ref(request);
                let posted = self.0.with(|end| {
                    // One that is broken may have been polled for the last time; the agent ends
                    // what it is given until, or after, it knows that the peer is lost.
                    let is_whole = end.wire.lost().is_none();
                    // SAFETY: passed on to the caller.
                    is_whole.then(|| unsafe { end.wire.post(batch) })
                });
                posted.map_or(Some(false), |taken| taken.map(|count| count == 1))
            }
            _ => None,
        }
    }
}

/// The ends of a link to `peer` over `wire`.
pub(crate) fn ends<W: Wire + 'static>(
    wire: W,
    peer: NodeId,
) -> (Box<dyn Outlet>, Box<dyn Inlet>, Native<W>) {
    let (open, letters, waiting, arrived, ended) = Default::default();
    let end = End { wire, peer, open, letters, waiting, next: 0, arrived, ended };
    let end = Held::new(end);
    let (assembler, arrived) = (Assembler::new(), Vec::new());
    let inlet = Receiver { end: end.clone(), peer, assembler, arrived };
    (Box::new(Sender(end.clone())), Box::new(inlet), Native(end))
}

/// The sending end.
#[derive(Debug)]
struct Sender<W>(Held<End<W>>);

impl<W: Wire + 'static> Outlet for Sender<W> {
    fn push(
        &mut self,
        head: &[u8; HEAD_LEN],
        payload: Source,
        already: usize,
    ) -> io::Result<usize> {
        let all = HEAD_LEN + payload.len();
        let taken = self.0.with(|end| {
            let mut taken = already;
            while taken < all && end.has_room() {
                taken += pack(head, payload, taken, &mut end.open, MESSAGE_LEN_MAX);
                if taken < all {
                    end.close_letter();
                }
            }
            taken
        });
        Ok(taken.unwrap_or(already))
    }

    fn flush(&mut self) -> io::Result<bool> {
        let flushed = self.0.with(|end| {
            end.close_letter();
            end.waiting.is_empty()
        });
        Ok(flushed.unwrap_or(true))
    }

    fn close(&mut self) {
        self.0.with(End::close_letter);
    }
}

/// The receiving end.
#[derive(Debug)]
struct Receiver<W> {
    end: Held<End<W>>,
    peer: NodeId,
    assembler: Assembler,
    arrived: Vec<u8>,
}

impl<W: Wire + 'static> Receiver<W> {
    /// Hands over what the last poll has found.
    fn hand_over(&mut self, inbox: &mut dyn Inbox) -> Result {
        let Self { end, arrived, .. } = self;
        let taken = end.with(|end| {
            std::mem::swap(&mut end.arrived, arrived);
            (std::mem::take(&mut end.ended), end.wire.lost())
        });
        let Some((ended, lost)) = taken else { return Ok(()) };
        self.end_all(ended, inbox);
        self.assembler.feed(&self.arrived, inbox)?;
        self.arrived.clear();
        let Some(status) = lost else { return Ok(()) };
        Err(Error::protocol(format!("the connection is broken: {status}")))
    }

    /// Tells of reads and writes that have ended.
    fn end_all(&self, ended: Vec<(Token, Result<u64, Failure>)>, inbox: &mut dyn Inbox) {
        for (token, result) in ended {
            inbox.end(token, result.map_err(|failure| error_of(self.peer, failure)));
        }
    }
}

impl<W: Wire + 'static> Inlet for Receiver<W> {
    fn receive(&mut self, inbox: &mut dyn Inbox) -> Result<usize> {
        let count = self.end.with(End::poll).unwrap_or(0);
        self.hand_over(inbox)?;
        Ok(count)
    }

    fn is_polled(&self) -> bool {
        true
    }

    fn arm(&mut self) -> bool {
        let armed = self.end.with(|end| {
            end.wire.arm();
            end.poll() > 0
        });
        armed.unwrap_or(false)
    }

    fn is_quiet(&mut self) -> bool {
        self.end.with(|end| end.letters.is_empty()).unwrap_or(true)
    }

    fn close(&mut self, inbox: &mut dyn Inbox) {
        let ended = self.end.with(|end| {
            end.wire.abandon();
            end.poll();
            std::mem::take(&mut end.ended)
        });
        // What has arrived is left: the peer may be lost, and the memory that packets were to be
        // written to the program's again.
        self.end_all(ended.unwrap_or_default(), inbox);
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.end.with(|end| end.wire.descriptor())?
    }
}

fn error_of(peer: NodeId, failure: Failure) -> Error {
    match failure {
        Failure::UnknownRegion => Error::UnknownRegion { node: peer, region: u32::MAX },
        Failure::OutOfBounds { capacity } => {
            Error::OutOfBounds { offset: capacity, len: 0, capacity }
        }
        Failure::Unaligned => Error::Unaligned { offset: 0, align: 8 },
        Failure::Lost(_) => Error::PeerLost { node: peer, epoch: 0 },
        Failure::Refused => Error::Device {
            device: peer.to_string(),
            call: "registering memory",
            reason: failure.to_string(),
        },
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
