//! The receiving side of a class: delivers in order, and keeps what came too early.

use super::frame::PAYLOAD_LEN_MAX;

/// What became of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Arrival {
    /// It is the next to be delivered.
    Next,
    /// It is kept until those before it are there.
    Early,
    /// It was here before.
    Again,
}

/// The payload of a frame that came too early.
#[derive(Debug)]
struct Kept {
    len: usize,
    bytes: Box<[u8; PAYLOAD_LEN_MAX]>,
}

impl Kept {
    fn empty() -> Self {
        Self { len: 0, bytes: Box::new([0; PAYLOAD_LEN_MAX]) }
    }
}

#[derive(Debug)]
pub(super) struct Inbox {
    // By sequence number, modulo their number.
    kept: Box<[Option<Kept>]>,
    // Everything before it was delivered.
    next: u64,
    // Everything from it on has yet to come.
    end: u64,
    is_held: bool,
    // Buffers to keep frames in: once made, they stay.
    spare: Vec<Kept>,
}

impl Inbox {
    pub(super) fn new(window: u16) -> Self {
        let kept = std::iter::repeat_with(|| None).take(usize::from(window)).collect();
        let spare = Vec::with_capacity(usize::from(window));
        Self { kept, next: 0, end: 0, is_held: false, spare }
    }

    fn index(&self, sequence: u64) -> usize {
        let index = sequence & (self.kept.len() as u64 - 1);
        usize::try_from(index).expect("an index is less than a length")
    }

    /// The first frame that has not been delivered.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Whether frames are kept.
    pub(super) fn is_keeping(&self) -> bool {
        self.next < self.end
    }

    /// Whether the peer may have sent the frame already.
    pub(super) fn is_possible(&self, sequence: u64) -> bool {
        sequence.saturating_sub(self.next) < self.kept.len() as u64
    }

    /// Takes in a frame that is possible; one that is `Next` has to be delivered by the caller.
    #[inline]
    pub(super) fn accept(&mut self, sequence: u64, payload: &[u8]) -> Arrival {
        if sequence < self.next {
            return Arrival::Again;
        }
        if sequence == self.next && !self.is_held {
            self.next += 1;
            self.end = self.end.max(self.next);
            return Arrival::Next;
        }
        self.keep(sequence, payload)
    }

    fn keep(&mut self, sequence: u64, payload: &[u8]) -> Arrival {
        let index = self.index(sequence);
        if self.kept[index].is_some() {
            return Arrival::Again;
        }
        let mut kept = self.spare.pop().unwrap_or_else(Kept::empty);
        kept.len = payload.len();
        kept.bytes[..payload.len()].copy_from_slice(payload);
        self.kept[index] = Some(kept);
        self.end = self.end.max(sequence + 1);
        Arrival::Early
    }

    /// Keeps what comes from now on.
    pub(super) fn hold(&mut self) {
        self.is_held = true;
    }

    /// Delivers again.
    pub(super) fn resume(&mut self) {
        self.is_held = false;
    }

    /// Hands the kept payload that is next to `deliver`; whether there was one.
    pub(super) fn deliver_kept(&mut self, deliver: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        if self.is_held || !self.is_keeping() {
            return false;
        }
        let index = self.index(self.next);
        let Some(kept) = self.kept[index].take() else { return false };
        self.next += 1;
        self.is_held = !deliver(&kept.bytes[..kept.len]);
        self.spare.push(kept);
        true
    }

    /// Writes a bit for every frame from `next` on, set where it is kept; the bytes written.
    pub(super) fn write_bits(&self, bits: &mut [u8]) -> usize {
        let sequences = self.next..self.end;
        let len = usize::try_from(sequences.end - sequences.start).expect("a window").div_ceil(8);
        bits[..len].fill(0);
        for (place, sequence) in sequences.enumerate() {
            let is_kept = self.kept[self.index(sequence)].is_some();
            bits[place / 8] |= u8::from(is_kept) << (place % 8);
        }
        len
    }
}
