//! Cutting operations into the requests of the send queue.

use std::ptr::NonNull;

use super::{
    CELL_LEN, Failure, Rc, SENDS, SIGNAL_INTERVAL,
    control::{Ask, Kind},
    credit::Class,
    room_of,
    work::{After, Work},
};
use crate::{
    MESSAGE_LEN_MAX, Op, RemoteAddr, copy_out,
    verbs::{chain::Verb, status::Status, sys},
};

/// Bytes that are copied sooner than looked up.
const SMALL_LEN: usize = 512;

/// An operation that is not yet all in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) operation: usize,
    op: Op,
    // Bytes of it that are in the queue.
    done: usize,
    // For a swap: what the word is taken to be.
    guess: u64,
}

impl Pending {
    pub(super) fn new(operation: usize, op: Op) -> Self {
        Self { operation, op, done: 0, guess: 0 }
    }

    /// A swap, tried again after the word was found to be `guess`.
    pub(super) fn again(operation: usize, target: RemoteAddr, value: u64, guess: u64) -> Self {
        Self { operation, op: Op::Swap { target, value }, done: 0, guess }
    }

    fn len(&self) -> usize {
        match self.op {
            Op::Read { target, .. } => target.len(),
            Op::Write { source, .. } => source.len(),
            Op::Send { message, .. } => message.len(),
            Op::FetchAdd { .. } | Op::Swap { .. } | Op::CompareSwap { .. } => 8,
            Op::Signal { .. } => 0,
        }
    }
}

/// Bytes of an operation that a step has put into the queue; `None` where it must wait.
type Step = Result<Option<usize>, Failure>;

impl Rc {
    /// Posts as much of what is pending as there is room for.
    pub(super) fn pump(&mut self) {
        while self.lost.is_none() && self.has_more() {
            while !self.chain.is_full()
                && self.works.len() < SENDS
                && (self.queue_control() || self.queue_step())
            {}
            if self.chain.is_empty() {
                return;
            }
            if std::mem::take(&mut self.is_awaited) {
                self.chain.signal_last();
            }
            let Some(pair) = &self.pair else { return };
            // SAFETY: the requests name cells, which nobody touches until they have ended, and
            // local memory, which the posters keep until the operations have. The queue has room
            // for `SENDS`.
            if unsafe { self.chain.post(pair) }.is_err() {
                self.lose(Status::FATAL);
            }
        }
    }

    /// Whether there is something to post, now or later.
    #[inline]
    fn has_more(&self) -> bool {
        !self.pending.is_empty() || !self.controls.is_empty() || self.credits.is_due()
    }

    /// Adds a request to the chain.
    fn queue(&mut self, verb: Verb, element: sys::ibv_sge, is_inline: bool, work: Work) {
        let number = self.works.next();
        let mut flags = if is_inline { sys::IBV_SEND_INLINE } else { 0 };
        if number % SIGNAL_INTERVAL == SIGNAL_INTERVAL - 1 {
            flags |= sys::IBV_SEND_SIGNALED;
        }
        if let Some(operation) = work.operation {
            self.operations.enqueue(operation);
            self.is_awaited = true;
        }
        self.chain.push(number, verb, element, flags);
        self.works.push(work);
    }

    /// Queues what the connection itself has to say; returns whether there was something.
    fn queue_control(&mut self) -> bool {
        if !self.controls.is_empty()
            && self.credits.may_send(Class::Control)
            && let Some((kind, bytes)) = self.controls.pop_front()
        {
            self.queue_message(kind, NonNull::from(&bytes[..]));
            return true;
        }
        if self.credits.is_due() {
            self.queue_message(Kind::Credit, NonNull::from(&[][..]));
            return true;
        }
        false
    }

    /// Queues a message, which its class allows.
    fn queue_message(&mut self, kind: Kind, message: NonNull<[u8]>) {
        let immediate = kind.immediate(self.credits.spend(kind.class()));
        let (element, is_inline) = self.outgoing(message.cast(), message.len());
        let work = Work { operation: None, after: After::Nothing };
        self.queue(Verb::Send { immediate: Some(immediate) }, element, is_inline, work);
    }

    /// Queues a request of the first pending operation; returns whether something was done.
    fn queue_step(&mut self) -> bool {
        let Some(&pending) = self.pending.front() else { return false };
        let was_asking = self.is_asking;
        match self.step(pending) {
            // An ask is something too.
            Ok(None) => return self.is_asking && !was_asking,
            Ok(Some(len)) if pending.done + len < pending.len() => self.pending[0].done += len,
            Ok(Some(_)) => {
                self.pending.pop_front();
                self.end(pending.operation, None);
            }
            Err(failure) => self.end_first(failure),
        }
        true
    }

    fn step(&mut self, pending: Pending) -> Step {
        match pending.op {
            Op::Read { source, target } => self.step_read(pending, source, target.cast()),
            Op::Write { source, target } => self.step_write(pending, source.cast(), target),
            Op::Send { message, .. } => Ok(self.step_send(message)),
            Op::Signal { .. } => unreachable!("a signal is an agent's, and comes as a message"),
            Op::FetchAdd { target, addend } => {
                let verb = |address, key| Verb::FetchAdd { address, key, addend };
                self.step_atomic(pending, target, After::Word, verb)
            }
            Op::CompareSwap { target, expected, desired } => {
                let verb = |address, key| Verb::CompareSwap { address, key, expected, desired };
                self.step_atomic(pending, target, After::Word, verb)
            }
            Op::Swap { target, value } => {
                let expected = pending.guess;
                let after = After::Swap { target, value, expected };
                let verb =
                    |address, key| Verb::CompareSwap { address, key, expected, desired: value };
                self.step_atomic(pending, target, after, verb)
            }
        }
    }

    fn step_read(&mut self, pending: Pending, source: RemoteAddr, target: NonNull<u8>) -> Step {
        let Some((place, len)) = self.place(pending, source)? else { return Ok(None) };
        // SAFETY: `done` is less than the target's length.
        let target = unsafe { target.add(pending.done) };
        let verb = Verb::Read { address: place.address, key: place.key };
        let (element, after) = match self.in_place(target, len) {
            Some(element) => (element, After::Nothing),
            None => {
                let len = len.min(CELL_LEN);
                let at = room_of(self.works.next(), len);
                (self.cells.element(at, len), After::Copy { target, len })
            }
        };
        self.queue(verb, element, false, Work { operation: Some(pending.operation), after });
        Ok(Some(element.length as usize))
    }

    fn step_write(&mut self, pending: Pending, source: NonNull<u8>, target: RemoteAddr) -> Step {
        let Some((place, len)) = self.place(pending, target)? else { return Ok(None) };
        // SAFETY: `done` is less than the source's length.
        let source = unsafe { source.add(pending.done) };
        let verb = Verb::Write { address: place.address, key: place.key };
        let (element, is_inline) = match self.in_place(source, len) {
            Some(element) => (element, false),
            None => self.outgoing(source, len.min(CELL_LEN)),
        };
        let work = Work { operation: Some(pending.operation), after: After::Nothing };
        self.queue(verb, element, is_inline, work);
        Ok(Some(element.length as usize))
    }

    fn step_atomic(
        &mut self,
        pending: Pending,
        target: RemoteAddr,
        after: After,
        verb: impl FnOnce(u64, u32) -> Verb,
    ) -> Step {
        if !target.offset.is_multiple_of(8) {
            return Err(Failure::Unaligned);
        }
        let Some((place, _)) = self.place(pending, target)? else { return Ok(None) };
        let element = self.cells.element(room_of(self.works.next(), 8), 8);
        let work = Work { operation: Some(pending.operation), after };
        self.queue(verb(place.address, place.key), element, false, work);
        Ok(Some(8))
    }

    fn step_send(&mut self, message: NonNull<[u8]>) -> Option<usize> {
        assert!(message.len() <= MESSAGE_LEN_MAX, "a message fits a frame");
        if !self.credits.may_send(Class::Message) {
            return None;
        }
        self.queue_message(Kind::Message, message);
        Some(message.len())
    }

    /// Where the rest of an operation on `remote` goes on, and how many bytes a request may move
    /// there; `None` while the peer is asked for it.
    fn place(
        &mut self,
        pending: Pending,
        remote: RemoteAddr,
    ) -> Result<Option<(Place, usize)>, Failure> {
        let (region, offset) = (remote.region, remote.offset + pending.done as u64);
        let Some((slab, capacity)) = self.slabs.find(region, offset) else {
            if !self.is_asking {
                self.is_asking = true;
                let ask = Ask { region, offset }.to_bytes();
                self.controls.push_back((Kind::Ask, ask.to_vec()));
            }
            return Ok(None);
        };
        let rest = (pending.len() - pending.done) as u64;
        if rest > capacity - offset {
            return Err(Failure::OutOfBounds { capacity });
        }
        let len = rest.min(slab.rest(offset)).min(self.request_len_max);
        let len = usize::try_from(len).expect("at most the operation's length");
        Ok(Some((Place { address: slab.address_of(offset), key: slab.key }, len)))
    }

    /// Names local memory to the device, as much of it as lies together, where it is registered or
    /// can be, and is worth looking up.
    fn in_place(&self, start: NonNull<u8>, len: usize) -> Option<sys::ibv_sge> {
        if len <= SMALL_LEN {
            return None;
        }
        let addr = start.as_ptr().addr() as u64;
        let (lkey, room) = self.registry.local_key(addr)?;
        let length = u32::try_from(room.min(len as u64)).ok()?;
        Some(sys::ibv_sge { addr, length, lkey })
    }

    /// Copies bytes to the next request's cell; returns that, and whether the request carries them
    /// in itself.
    fn outgoing(&mut self, source: NonNull<u8>, len: usize) -> (sys::ibv_sge, bool) {
        let at = room_of(self.works.next(), len);
        // SAFETY: the cell's last request has ended: there are as many cells as requests.
        let cell = unsafe { self.cells.bytes_mut(at, len) };
        // SAFETY: the poster keeps the source valid until the operation has ended, which it has
        // not yet.
        unsafe { copy_out(source, cell) };
        (self.cells.element(at, len), len > 0 && len <= self.inline_len)
    }
}

/// An address at the peer, as its device knows it.
#[derive(Clone, Copy)]
struct Place {
    address: u64,
    key: u32,
}
