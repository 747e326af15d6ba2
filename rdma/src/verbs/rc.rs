//! A reliable connection to one peer: its memory by the devices alone, and messages.
//!
//! Operations are taken in their order, cut into requests that devices and slabs allow, and posted
//! as the send queue has room, many with one doorbell. What is small passes through a cell of
//! registered memory; what is large is moved in place where the local memory is registered, else
//! through the cells. The peer's memory is registered slab by slab, when it is first asked for.
//!
//! A connection fails as a whole: everything not yet ended then ends, each with an error.

mod control;
mod credit;
mod step;
mod work;

use std::{collections::VecDeque, fmt, os::fd::BorrowedFd, sync::Arc};

use self::{
    control::{Answer, Ask, Kind},
    credit::{Credits, WINDOW},
    step::Pending,
    work::{After, Finished, Operations, Work, WorkQueue},
};
use super::{
    cells::Cells,
    chain::Chain,
    completion_queue::{Batch, CompletionQueue, Ended},
    inbox::Inbox,
    port::Endpoint,
    queue_pair::{Capacity, Kind as Connection, QueuePair},
    registry::{NoSlab, Registry},
    slabs::PeerSlabs,
    status::Status,
};
use crate::{Error, Request, Result, Token};

/// Requests in the send queue.
const SENDS: usize = 64;
/// Bytes of a request's cell: a block.
const CELL_LEN: usize = 16 << 10;
/// Bytes of a request's line, which serves it for a cell if it needs no more: the lines of all
/// requests are close together, and stay in the cache.
const LINE_LEN: usize = 128;
/// Bytes that a request may carry in itself, which spares the device to fetch them.
const INLINE_LEN: usize = LINE_LEN;
/// Operations taken before their requests have room in the queue.
const PENDING_MAX: usize = 256;
/// Every so many requests say that they have ended, even if nobody waits for them.
const SIGNAL_INTERVAL: u64 = SENDS as u64 / 4;

/// Why an operation did not happen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Failure {
    /// The connection is broken, and the peer out of reach by it.
    Lost(Status),
    /// The peer has no such region.
    UnknownRegion,
    /// The peer's region has only so many bytes.
    OutOfBounds {
        /// Bytes that are there.
        capacity: u64,
    },
    /// An atomic's offset is no multiple of 8.
    Unaligned,
    /// The peer's device cannot register the memory; its agent can still reach it.
    Refused,
}

/// What a poll has found.
#[derive(Debug)]
pub enum Event<'a> {
    /// An operation has ended: with the word before it, for an atomic; else with zero.
    Done {
        /// The operation's name.
        token: Token,
        /// How it ended.
        result: Result<u64, Failure>,
    },
    /// A message has come.
    Message(&'a [u8]),
}

/// This node's end of a reliable connection.
#[derive(Debug)]
pub struct Rc {
    // In this order, which is that of their end: queue pair, completion queue, memory regions. The
    // pair goes when the connection breaks.
    pair: Option<QueuePair>,
    endpoint: Endpoint,
    inline_len: usize,
    completions: Arc<CompletionQueue>,
    cells: Cells,
    inbox: Inbox,
    registry: Arc<Registry>,
    // Taken, not yet all in the queue.
    pending: VecDeque<Pending>,
    operations: Operations,
    works: WorkQueue,
    chain: Chain,
    credits: Credits,
    // To be said to the peer, before anything of the user's.
    controls: VecDeque<(Kind, Vec<u8>)>,
    slabs: PeerSlabs,
    // The first pending operation waits for the peer's answer.
    is_asking: bool,
    // Something in the chain has somebody waiting for it.
    is_awaited: bool,
    request_len_max: u64,
    finished: VecDeque<Finished>,
    lost: Option<Status>,
    batch: Batch,
}

// SAFETY: the pointers in it are those of the operations' local memory, which the poster keeps
// valid, whichever thread polls, until the operations have ended.
unsafe impl Send for Rc {}

impl Rc {
    /// An end that takes messages, to be connected from the address numbered `place` of the port's
    /// list. It touches the memory of `registry`.
    pub fn new(registry: &Arc<Registry>, place: usize) -> Result<Self> {
        let domain = registry.domain();
        let sends = u32::try_from(SENDS).expect("a queue is small");
        let completions = CompletionQueue::new(domain.port().context(), sends + WINDOW)?;
        let inline_len = u32::try_from(INLINE_LEN).expect("an inline message is small");
        let capacity = Capacity { sends, receives: WINDOW, inline_len };
        let pair = QueuePair::new(domain, &completions, Connection::Reliable, capacity, place)?;
        let cells = Cells::new(domain, SENDS * (LINE_LEN + CELL_LEN))?;
        let mut inbox = Inbox::new(domain, WINDOW)?;
        inbox.open(&pair)?;
        Ok(Self {
            endpoint: pair.endpoint(),
            inline_len: pair.inline_len(),
            pair: Some(pair),
            completions,
            cells,
            inbox,
            registry: registry.clone(),
            pending: VecDeque::with_capacity(PENDING_MAX),
            operations: Operations::default(),
            works: WorkQueue::default(),
            chain: Chain::new(),
            credits: Credits::new(),
            controls: VecDeque::new(),
            slabs: PeerSlabs::default(),
            is_asking: false,
            is_awaited: false,
            request_len_max: u64::from(domain.port().message_len_max()),
            finished: VecDeque::new(),
            lost: None,
            batch: Batch::default(),
        })
    }

    /// What the peer must know to connect.
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// Connects to the peer's end. The two tell each other when they are connected, by other means,
    /// before either posts anything.
    pub fn connect(&mut self, peer: &Endpoint) -> Result {
        let broken = || Error::protocol("the connection is broken");
        self.pair.as_ref().ok_or_else(broken)?.connect(peer)
    }

    /// Takes the requests of `batch` in order, and returns how many; fewer than all where the
    /// queue is full: poll, then post the rest. Every request taken ends exactly once. The node
    /// that they name is taken to be the peer.
    ///
    /// # Safety
    ///
    /// The local memory that a request names must stay valid, and be touched by nobody else, until
    /// [`poll`](Self::poll) gives back its token, or the connection is dropped.
    pub unsafe fn post(&mut self, batch: &[Request]) -> usize {
        let room = PENDING_MAX.saturating_sub(self.pending.len());
        let taken = &batch[..batch.len().min(room)];
        for request in taken {
            let operation = self.operations.begin(request.token);
            match self.lost {
                Some(status) => self.end(operation, Some(Failure::Lost(status))),
                None => self.pending.push_back(Pending::new(operation, request.op)),
            }
        }
        self.pump();
        taken.len()
    }

    /// Hands what has ended and what has come to `sink`, without waiting, and returns how many
    /// those were.
    pub fn poll(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let mut count = 0;
        if self.lost.is_none() {
            if self.completions.poll(&mut self.batch).is_err() {
                self.lose(Status::FATAL);
            }
            for index in 0..self.batch.len() {
                count += self.note(self.batch.get(index), sink);
            }
            if !self.batch.is_empty() {
                self.pump();
            }
        }
        while let Some((token, result)) = self.finished.pop_front() {
            sink(Event::Done { token, result });
            count += 1;
        }
        count
    }

    /// Lets what ends or comes next make [`descriptor`](Self::descriptor) readable. Who arms polls
    /// once more before blocking.
    pub fn arm(&self) -> Result {
        self.completions.arm()
    }

    /// Readable after [`arm`](Self::arm), until [`disarm`](Self::disarm).
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.completions.descriptor()
    }

    /// Takes what made the descriptor readable.
    pub fn disarm(&self) {
        self.completions.disarm();
    }

    /// Why the connection is broken, if it is.
    pub fn lost(&self) -> Option<Status> {
        self.lost
    }

    /// Breaks the connection, for a peer that is known to be dead: the next poll ends everything.
    pub fn abandon(&mut self) {
        self.lose(Status::FLUSHED);
    }

    /// Notes what the device says; returns how many events of that went to `sink`.
    #[inline]
    fn note(&mut self, ended: Ended, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        match ended.result {
            _ if self.lost.is_some() => 0,
            Err(status) => {
                self.lose(status);
                0
            }
            Ok(()) if Inbox::is_receive(ended) => self.receive(ended, sink),
            Ok(()) => {
                while let Some((number, work)) = self.works.pop_until(ended.work) {
                    self.complete(number, work);
                }
                0
            }
        }
    }

    /// Does what is left to do for a request that has ended.
    fn complete(&mut self, number: u64, work: Work) {
        let Some(operation) = work.operation else { return };
        let word = match work.after {
            After::Nothing => None,
            After::Copy { target, len } => {
                // SAFETY: the device has written the cell, and uses it no more.
                let bytes = unsafe { self.cells.bytes(room_of(number, len), len) };
                // SAFETY: the poster keeps the target valid until the operation has ended, which
                // it has not yet; nobody else touches it.
                unsafe { crate::copy_in(bytes, target) };
                None
            }
            After::Word => Some(self.word(number)),
            After::Swap { target, value, expected } => {
                let found = self.word(number);
                if found != expected {
                    self.operations.unseal(operation);
                    let again = Pending::again(operation, target, value, found);
                    // The first stays, if an answer is on its way to it.
                    self.pending.insert(usize::from(self.is_asking), again);
                }
                Some(found)
            }
        };
        if let Some(finished) = self.operations.dequeue(operation, word) {
            self.finished.push_back(finished);
        }
    }

    /// The word that came with a request.
    fn word(&self, number: u64) -> u64 {
        // SAFETY: the device has written the cell, and uses it no more.
        let bytes = unsafe { self.cells.bytes(room_of(number, 8), 8) };
        // The device answers in this host's byte order.
        u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
    }

    /// Takes a message; returns how many events it made.
    fn receive(&mut self, ended: Ended, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let Ok((kind, returned)) = Kind::of(ended.immediate) else {
            self.lose(Status::PROTOCOL);
            return 0;
        };
        let bytes = self.inbox.message(ended);
        let said = match kind {
            Kind::Message => {
                sink(Event::Message(bytes));
                Ok(())
            }
            Kind::Credit => Ok(()),
            Kind::Ask => Ask::from_bytes(bytes).and_then(|ask| self.answer(ask)),
            Kind::Answer => Answer::from_bytes(bytes).and_then(|answer| self.learn(answer)),
        };
        let is_sound = said.and_then(|()| match &self.pair {
            Some(pair) => self.inbox.post_again(pair, ended),
            None => Ok(()),
        });
        // Told of only now that the receive is posted again.
        if is_sound.is_err() || !self.credits.receive(returned) {
            self.lose(Status::PROTOCOL);
        }
        usize::from(kind == Kind::Message)
    }

    fn answer(&mut self, ask: Ask) -> Result {
        // Of this end's own there is one ask at most; so a peer cannot make the queue grow.
        if self.controls.iter().any(|(kind, _)| *kind == Kind::Answer) {
            return Err(Error::protocol("a peer asks before it has its answer"));
        }
        let slab = self.registry.grant(ask.region, ask.offset);
        let answer = Answer { region: ask.region, slab };
        self.controls.push_back((Kind::Answer, answer.to_bytes().to_vec()));
        Ok(())
    }

    fn learn(&mut self, answer: Answer) -> Result {
        if !std::mem::take(&mut self.is_asking) {
            return Err(Error::protocol("a peer answers what was not asked"));
        }
        match answer.slab {
            Ok((capacity, slab)) => self.slabs.insert(answer.region, capacity, slab),
            Err(why) => self.end_first(match why {
                NoSlab::UnknownRegion => Failure::UnknownRegion,
                NoSlab::OutOfBounds { capacity } => Failure::OutOfBounds { capacity },
                NoSlab::Refused => Failure::Refused,
            }),
        }
        Ok(())
    }

    /// Ends the first pending operation with an error.
    fn end_first(&mut self, failure: Failure) {
        if let Some(pending) = self.pending.pop_front() {
            self.end(pending.operation, Some(failure));
        }
    }

    /// Ends an operation once its last request has ended.
    fn end(&mut self, operation: usize, failure: Option<Failure>) {
        if let Some(finished) = self.operations.seal(operation, failure) {
            self.finished.push_back(finished);
        }
    }

    #[cold]
    fn lose(&mut self, status: Status) {
        if self.lost.is_some() {
            return;
        }
        self.lost = Some(status);
        // The device must touch no memory that its owner will have back. When the pair is destroyed
        // it has ended everything; when the pair is only told of an error, it need not have yet.
        drop(self.pair.take());
        self.pending.clear();
        self.works.clear();
        self.chain.clear();
        self.controls.clear();
        self.finished.extend(self.operations.drain(Failure::Lost(status)));
    }
}

/// Where the request numbered `number` has room for `len` bytes: its line, or its cell.
fn room_of(number: u64, len: usize) -> usize {
    let index = usize::try_from(number % SENDS as u64).expect("a queue is small");
    if len <= LINE_LEN { index * LINE_LEN } else { SENDS * LINE_LEN + index * CELL_LEN }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(status) => write!(f, "the connection is broken: {status}"),
            Self::UnknownRegion => f.write_str("the peer has no such region"),
            Self::OutOfBounds { capacity } => {
                write!(f, "outside the {capacity} bytes of the peer's region")
            }
            Self::Unaligned => f.write_str("an atomic's offset is no multiple of 8"),
            Self::Refused => f.write_str(
                "the peer's device does not register the memory: raise `ulimit -l` there",
            ),
        }
    }
}
