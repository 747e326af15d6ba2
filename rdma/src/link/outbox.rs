//! The sending side of a class: a ring of slots, each from filled to acknowledged.
//!
//! ```text
//!        free          acked             fresh          end
//! ---------+-------------+-----------------+--------------+----------
//!  usable  | still read  | sent, perhaps   | filled, the  | usable, as far as the
//!  again   | by the wire | arrived or lost | last is open | window and the peer allow
//! ```

use std::collections::VecDeque;

use super::{
    SlotId,
    frame::{self, FRAME_LEN_MAX, HEAD_LEN, PREFIX_LEN},
};
use crate::Moment;

/// A frame, and what is known of it.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    payload_len: usize,
    is_on_wire: bool,
    // The peer has it, but cannot deliver it yet.
    has_arrived: bool,
    // It waits to be sent again.
    is_lost: bool,
    // The transmissions that carried it: the first, and the last with its time.
    first: u64,
    last: u64,
    sent_at: Moment,
}

#[derive(Debug)]
pub(super) struct Outbox {
    // By sequence number, modulo their number.
    slots: Box<[Slot]>,
    // Where its slots begin among those of the link.
    base: u16,
    free: u64,
    acked: u64,
    fresh: u64,
    end: u64,
    // Frames beyond `acked` that the peer takes.
    credit: u64,
    // To be sent again, oldest first; some may have been acknowledged since.
    lost: VecDeque<u64>,
}

/// A frame to send, but for its head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filled {
    pub(super) slot: SlotId,
    pub(super) sequence: u64,
    pub(super) payload_len: usize,
    pub(super) is_repeated: bool,
}

/// What an acknowledgement has brought.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Frames were delivered.
    pub(super) is_some: bool,
    /// When the frame was sent that is answered by this.
    pub(super) sent_at: Option<Moment>,
}

impl Outbox {
    pub(super) fn new(base: u16, window: u16) -> Self {
        let slots = vec![Slot::default(); usize::from(window)].into();
        let lost = VecDeque::with_capacity(usize::from(window));
        let credit = u64::from(window);
        Self { slots, base, free: 0, acked: 0, fresh: 0, end: 0, credit, lost }
    }

    fn index(&self, sequence: u64) -> usize {
        let index = sequence & (self.slots.len() as u64 - 1);
        usize::try_from(index).expect("an index is less than a length")
    }

    fn slot(&mut self, sequence: u64) -> &mut Slot {
        &mut self.slots[self.index(sequence)]
    }

    fn id(&self, sequence: u64) -> SlotId {
        let index = u16::try_from(self.index(sequence)).expect("a window is 16 bits");
        SlotId(self.base + index)
    }

    /// Frames that can be filled now, beyond the one that is open.
    pub(super) fn room(&self) -> usize {
        let limit = (self.acked + self.credit).min(self.free + self.slots.len() as u64);
        usize::try_from(limit.saturating_sub(self.end)).expect("a window is 16 bits")
    }

    /// Adds a packet of `len` bytes, which is `parts`; whether there was room.
    #[inline]
    pub(super) fn push(&mut self, slab: &mut [[u8; FRAME_LEN_MAX]], parts: &[&[u8]]) -> bool {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        assert!(len <= frame::PACKET_LEN_MAX, "a packet fits a frame");
        let used = if self.fresh < self.end { self.slot(self.end - 1).payload_len } else { 0 };
        if self.fresh == self.end || used + PREFIX_LEN + len > frame::PAYLOAD_LEN_MAX {
            if self.room() == 0 {
                return false;
            }
            *self.slot(self.end) = Slot::default();
            self.end += 1;
        }
        let sequence = self.end - 1;
        let bytes = &mut slab[self.id(sequence).index()];
        let slot = &mut self.slots[self.index(sequence)];
        let mut at = HEAD_LEN + slot.payload_len;
        let prefix = u16::try_from(len).expect("a packet is short").to_le_bytes();
        for part in [&prefix[..]].iter().chain(parts) {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        slot.payload_len = at - HEAD_LEN;
        true
    }

    /// Whether a lost frame can be sent again now.
    pub(super) fn has_lost(&mut self) -> bool {
        while let Some(&sequence) = self.lost.front() {
            if sequence >= self.acked && self.slot(sequence).is_lost {
                // It may be under way to being read still; what follows it waits with it.
                return !self.slot(sequence).is_on_wire;
            }
            self.lost.pop_front();
        }
        false
    }

    /// Whether a frame waits to be sent for the first time.
    pub(super) fn has_fresh(&self) -> bool {
        self.fresh < self.end
    }

    /// Whether the peer has yet to acknowledge something that was sent.
    pub(super) fn is_awaiting(&self) -> bool {
        self.acked < self.fresh
    }

    /// Takes the next frame to send. Only after `has_lost` or `has_fresh`.
    #[inline]
    pub(super) fn transmit(&mut self, now: Moment, transmission: u64) -> Filled {
        let is_repeated = self.has_lost();
        let sequence = if is_repeated { self.lost.pop_front() } else { None };
        let sequence = sequence.unwrap_or(self.fresh);
        let slot = self.slot(sequence);
        if !is_repeated {
            slot.first = transmission;
        }
        slot.is_lost = false;
        slot.is_on_wire = true;
        slot.last = transmission;
        slot.sent_at = now;
        let payload_len = slot.payload_len;
        self.fresh += u64::from(!is_repeated);
        Filled { slot: self.id(sequence), sequence, payload_len, is_repeated }
    }

    /// The wire no longer reads the slot at `index`.
    pub(super) fn sent(&mut self, index: usize) {
        assert!(self.slots[index].is_on_wire, "a slot that was not on the wire has left it");
        self.slots[index].is_on_wire = false;
        self.reclaim();
    }

    fn reclaim(&mut self) {
        while self.free < self.acked && !self.slot(self.free).is_on_wire {
            self.free += 1;
        }
    }

    /// Whether the peer can have delivered all before `next`.
    pub(super) fn is_possible(&self, next: u64) -> bool {
        next <= self.fresh
    }

    /// The peer has delivered all before `next` when it had seen transmission `seen`, and takes
    /// `credit` frames from there.
    #[inline]
    pub(super) fn acknowledge(&mut self, next: u64, credit: u16, seen: u64) -> Progress {
        let mut progress = Progress::default();
        if next < self.acked {
            return progress;
        }
        progress.is_some = next > self.acked;
        for sequence in self.acked..next {
            let slot = self.slot(sequence);
            // One that was kept at the peer says nothing of the time that a frame takes.
            if slot.last == seen && !slot.has_arrived {
                progress.sent_at = Some(slot.sent_at);
            }
        }
        self.acked = next;
        self.credit = u64::from(credit);
        self.reclaim();
        progress
    }

    /// The peer has what `bits` says, of the frames from `next` on, and has seen `seen`: what was
    /// sent more than `reordering` transmissions before that and is not there, is lost. Whether
    /// something has arrived.
    pub(super) fn report(&mut self, next: u64, bits: &[u8], seen: u64, reordering: u64) -> bool {
        let mut is_news = false;
        for sequence in self.acked.max(next)..self.fresh {
            let slot = self.slot(sequence);
            if slot.first > seen {
                break;
            }
            if is_set(bits, sequence - next) {
                is_news |= !slot.has_arrived;
                slot.has_arrived = true;
                slot.is_lost = false;
            } else if slot.last.saturating_add(reordering) < seen {
                self.lose(sequence);
            }
        }
        is_news
    }

    /// Nothing was heard for long: has the oldest frame sent again, even one that has arrived, to
    /// be told what is missing.
    pub(super) fn probe(&mut self) {
        if self.is_awaiting() && !self.has_lost() && !self.slot(self.acked).is_lost {
            self.slot(self.acked).is_lost = true;
            self.lost.push_back(self.acked);
        }
    }

    fn lose(&mut self, sequence: u64) {
        let slot = self.slot(sequence);
        if !slot.is_lost && !slot.has_arrived {
            slot.is_lost = true;
            self.lost.push_back(sequence);
        }
    }
}

fn is_set(bits: &[u8], index: u64) -> bool {
    let byte = usize::try_from(index / 8).ok().and_then(|at| bits.get(at));
    byte.is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}
