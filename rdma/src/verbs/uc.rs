//! Frames to one peer over an unreliable connection, as Thunderbolt has it.
//!
//! A frame that was sent may be lost, and its sender does not hear of it; what arrives is in order.
//! Frames lie in slots of registered memory from when they are written until nobody needs them sent
//! again. Reliability is the link's, above.

use std::{os::fd::BorrowedFd, sync::Arc};

use super::{
    cells::Cells,
    chain::{Chain, Verb},
    completion_queue::{Batch, CompletionQueue, Ended},
    inbox::Inbox,
    port::Endpoint,
    protection_domain::ProtectionDomain,
    queue_pair::{Capacity, Kind, QueuePair},
    status::Status,
    sys,
};
use crate::{MESSAGE_LEN_MAX, Result, link::Slab};

/// Bytes of the longest frame. Apple's driver takes a longer message apart, and wants receives of
/// the same number of frames for it.
pub const FRAME_LEN: usize = MESSAGE_LEN_MAX;

/// What a poll has found.
#[derive(Debug)]
pub enum Event<'a> {
    /// A frame has come.
    Frame(&'a [u8]),
    /// A frame came damaged, and is as good as lost.
    Damaged,
    /// The frame in the slot is on its way, or lost: the slot may be written again.
    Sent {
        /// The slot.
        slot: u32,
    },
}

/// This node's end of an unreliable connection.
#[derive(Debug)]
pub struct Uc {
    // In this order, which is that of their end: queue pair, completion queue, memory regions.
    pair: QueuePair,
    completions: Arc<CompletionQueue>,
    slots: Cells,
    inbox: Inbox,
    // Sends that wait for the doorbell; they count as in the queue.
    chain: Chain,
    // By slot: how often its frame is in the send queue.
    in_flight: Vec<u32>,
    in_queue: u32,
    lost: Option<Status>,
    batch: Batch,
}

impl Uc {
    /// An end with `sends` slots that takes `receives` frames at a time, to be connected from the
    /// address numbered `place` of the port's list.
    ///
    /// The memory is registered before the queue pair is made, as Apple's driver wants it.
    pub fn new(
        domain: &Arc<ProtectionDomain>,
        sends: u32,
        receives: u32,
        place: usize,
    ) -> Result<Self> {
        let slots = Cells::new(domain, cell_of(sends))?;
        let mut inbox = Inbox::new(domain, receives)?;
        let completions = CompletionQueue::new(domain.port().context(), sends + receives)?;
        let capacity = Capacity { sends, receives, inline_len: 0 };
        let pair = QueuePair::new(domain, &completions, Kind::Unreliable, capacity, place)?;
        // Some drivers take no receives before the connection stands: `connect` tries again.
        _ = inbox.open(&pair);
        let in_flight = vec![0; sends as usize];
        let (chain, (in_queue, lost, batch)) = (Chain::new(), Default::default());
        Ok(Self { pair, completions, slots, inbox, chain, in_flight, in_queue, lost, batch })
    }

    /// What the peer must know to connect.
    pub fn endpoint(&self) -> Endpoint {
        self.pair.endpoint()
    }

    /// Connects to the peer's end. Frames that arrive before are lost.
    pub fn connect(&mut self, peer: &Endpoint) -> Result {
        self.pair.connect(peer)?;
        self.inbox.open(&self.pair)
    }

    /// The memory of a slot, to write a frame to; `None` while its frame is in the send queue.
    pub fn slot(&mut self, slot: u32) -> Option<&mut [u8]> {
        if self.in_flight[slot as usize] > 0 {
            return None;
        }
        // SAFETY: the device uses a slot while it is in flight only.
        Some(unsafe { self.slots.bytes_mut(cell_of(slot), FRAME_LEN) })
    }

    /// The memory of all slots. One whose frame is in the send queue is not to be written: the
    /// frame would be damaged.
    pub(crate) fn slab(&mut self) -> &mut Slab {
        let count = self.in_flight.len();
        // SAFETY: the device only reads slots, and what it reads is checked where it arrives;
        // nobody else has them.
        let bytes = unsafe { self.slots.bytes_mut(0, count * FRAME_LEN) };
        bytes.as_chunks_mut().0
    }

    /// Sends the first `len` bytes of a slot, perhaps again, at the next [`ring`](Self::ring) or
    /// [`poll`](Self::poll) at the latest; returns `false` where the send queue is full: poll, then
    /// send.
    pub fn send(&mut self, slot: u32, len: usize) -> bool {
        // Apple's driver loses empty messages.
        assert!((1..=FRAME_LEN).contains(&len), "a frame has something in it, and fits a slot");
        if self.in_queue as usize == self.in_flight.len() {
            return false;
        }
        if self.lost.is_some() {
            return true;
        }
        if self.chain.is_full() {
            self.ring();
        }
        let element = self.slots.element(cell_of(slot), len);
        let verb = Verb::Send { immediate: None };
        self.chain.push(u64::from(slot), verb, element, sys::IBV_SEND_SIGNALED);
        self.in_flight[slot as usize] += 1;
        self.in_queue += 1;
        true
    }

    /// Has the device send what waits for it: one call for all of it.
    pub fn ring(&mut self) {
        if self.chain.is_empty() {
            return;
        }
        // SAFETY: the memory of the slots is registered for as long as the pair, and is not handed
        // out while it is in flight. `send` takes no more than the queue has room for.
        if unsafe { self.chain.post(&self.pair) }.is_err() {
            self.lost = Some(Status::FATAL);
        }
    }

    /// Hands what has come and what has been sent to `sink`, without waiting, and returns how many
    /// those were.
    pub fn poll(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        self.ring();
        if self.lost.is_none() && self.completions.poll(&mut self.batch).is_err() {
            self.lost = Some(Status::FATAL);
        }
        if self.lost.is_some() {
            return 0;
        }
        for index in 0..self.batch.len() {
            self.note(self.batch.get(index), sink);
        }
        self.batch.len()
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

    /// Why the connection is broken, if it is; a peer that is gone breaks nothing.
    pub fn lost(&self) -> Option<Status> {
        self.lost
    }

    fn note(&mut self, ended: Ended, sink: &mut dyn FnMut(Event<'_>)) {
        if !Inbox::is_receive(ended) {
            let slot = u32::try_from(ended.work).expect("slots are numbered by 32 bits");
            self.in_flight[slot as usize] -= 1;
            self.in_queue -= 1;
            self.lost = self.lost.or(ended.result.err());
            sink(Event::Sent { slot });
            return;
        }
        match ended.result {
            Ok(()) => sink(Event::Frame(self.inbox.message(ended))),
            Err(status) if status.is_length() => sink(Event::Damaged),
            Err(status) => {
                self.lost = self.lost.or(Some(status));
                return;
            }
        }
        if self.inbox.post_again(&self.pair, ended).is_err() {
            self.lost = self.lost.or(Some(Status::FATAL));
        }
    }
}

/// Where a slot begins.
fn cell_of(slot: u32) -> usize {
    slot as usize * FRAME_LEN
}
