//! Messages from one node to another: a ring of cache lines in the receiver's segment.
//!
//! A message takes as many cells as its bytes need. The stamp of its first cell is written last, so
//! that one line carries a short message whole:
//!
//! ```text
//! cell   0        8                                       64
//!        +--------+---------------------------------------+
//!        | stamp  | up to 56 bytes                        |
//!        +--------+---------------------------------------+
//! stamp  = (lap + 1) << 16 | length of the message, in its first cell; stale in the others
//! ```
//!
//! # Memory ordering
//!
//! The stamp's Release in `push` pairs with the Acquire in `is_ready`: who sees a stamp of this lap
//! sees the message. The Release of `consumed` in `pop` pairs with the Acquire in `push`: who sees
//! a cell given back may write it. All else is Relaxed, and atomic only because the other side is a
//! process that need not keep to this.

use crate::{
    Error, MESSAGE_LEN_MAX, Result,
    primitive::{AtomicU64, Ordering},
};

/// Cells of a ring; a model has few, so that the ring is full soon.
const CELL_COUNT: usize = if cfg!(loom) { 2 } else { 256 };
const CELLS: u64 = CELL_COUNT as u64;

/// Bytes of a message in one cell.
const CELL_LEN: usize = WORDS * 8;
const WORDS: usize = 7;
/// Bits of a stamp that hold the length.
const LEN_BITS: u32 = 16;

const _: () = assert!(MESSAGE_LEN_MAX < 1 << LEN_BITS, "a length fits its part of a stamp");
const _: () = assert!(CELLS.is_power_of_two(), "a cell's index is the low bits of its number");
#[cfg(not(loom))]
const _: () = assert!(MESSAGE_LEN_MAX.div_ceil(CELL_LEN) as u64 <= CELLS / 2, "messages overlap");

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Cell {
    stamp: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The shared part: what both sides see. All zero is an empty ring.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Ring {
    // Cells that the receiver has given back, in all.
    consumed: AtomicU64,
    // Keeps the receiver's word out of the first cell's lines.
    _apart: [u64; 15],
    cells: [Cell; CELL_COUNT],
}

impl Default for Ring {
    fn default() -> Self {
        let cells = std::array::from_fn(|_| Cell::default());
        Self { consumed: AtomicU64::new(0), _apart: [0; 15], cells }
    }
}

impl Ring {
    fn cell(&self, number: u64) -> &Cell {
        let index = usize::try_from(number % CELLS).expect("a ring has few cells");
        &self.cells[index]
    }
}

/// The stamp, without its length, of the cell that is used as the `number`th.
const fn lap(number: u64) -> u64 {
    number / CELLS + 1
}

/// Cells that a message of `len` bytes takes.
const fn cells_of(len: usize) -> u64 {
    if len == 0 { 1 } else { len.div_ceil(CELL_LEN) as u64 }
}

/// The sender's side.
#[derive(Debug, Default)]
pub(super) struct Producer {
    // Cells written, in all.
    head: u64,
    // `consumed` as last seen: it is read again only when the ring looks full.
    consumed: u64,
}

impl Producer {
    /// Sends `message`; returns whether there was room.
    #[inline]
    pub(super) fn push(&mut self, ring: &Ring, message: &[u8]) -> bool {
        assert!(message.len() <= MESSAGE_LEN_MAX, "a message fits a frame");
        let count = cells_of(message.len());
        if !self.has_room(ring, count) {
            return false;
        }
        let mut rest = message;
        for number in self.head..self.head + count {
            let (part, left) = rest.split_at(rest.len().min(CELL_LEN));
            store(ring.cell(number), part);
            rest = left;
        }
        let stamp = lap(self.head) << LEN_BITS | message.len() as u64;
        // Release: pairs with the Acquire in `Consumer::is_ready`; the message is visible before
        // it.
        ring.cell(self.head).stamp.store(stamp, Ordering::Release);
        self.head += count;
        true
    }

    /// Whether a sender that found the ring full should try again.
    pub(super) fn is_half_empty(&mut self, ring: &Ring) -> bool {
        self.has_room(ring, CELLS / 2)
    }

    fn has_room(&mut self, ring: &Ring, count: u64) -> bool {
        // A receiver that claims to have read what was never sent makes the ring look full.
        let room = |consumed: u64| CELLS.checked_sub(self.head.wrapping_sub(consumed));
        if room(self.consumed).is_some_and(|room| room >= count) {
            return true;
        }
        // Acquire: pairs with the Release in `Consumer::pop`; the cells are written after they were
        // read.
        self.consumed = ring.consumed.load(Ordering::Acquire);
        room(self.consumed).is_some_and(|room| room >= count)
    }
}

/// The receiver's side.
#[derive(Debug, Default)]
pub(super) struct Consumer {
    // Cells read, in all. Written under the receiver's lock, read without it by `is_ready`.
    tail: AtomicU64,
}

impl Consumer {
    /// Whether a message is there.
    #[inline]
    pub(super) fn is_ready(&self, ring: &Ring) -> bool {
        // Relaxed: a stale tail is one that another thread is about to empty.
        let tail = self.tail.load(Ordering::Relaxed);
        // Acquire: pairs with the Release in `Producer::push`.
        ring.cell(tail).stamp.load(Ordering::Acquire) >> LEN_BITS == lap(tail)
    }

    /// Takes the next message; its length in `buffer`, or `None` where there is none. One thread at
    /// a time.
    #[inline]
    pub(super) fn pop(&self, ring: &Ring, buffer: &mut [u8]) -> Result<Option<usize>> {
        // Relaxed: only this function writes it, one thread at a time.
        let tail = self.tail.load(Ordering::Relaxed);
        // Acquire: pairs with the Release in `Producer::push`; the message is read after its stamp.
        let stamp = ring.cell(tail).stamp.load(Ordering::Acquire);
        if stamp >> LEN_BITS != lap(tail) {
            return Ok(None);
        }
        let len = usize::try_from(stamp & ((1 << LEN_BITS) - 1)).expect("16 bits are a usize");
        if len > MESSAGE_LEN_MAX.min(buffer.len()) {
            return Err(Error::protocol(format!(
                "a message of {len} bytes, where {MESSAGE_LEN_MAX} are allowed"
            )));
        }
        let count = cells_of(len);
        for (number, part) in (tail..tail + count).zip(buffer[..len].chunks_mut(CELL_LEN)) {
            load(ring.cell(number), part);
        }
        // Release: pairs with the Acquire in `Producer::has_room`; the cells were read before.
        ring.consumed.store(tail + count, Ordering::Release);
        // Relaxed: see `is_ready`.
        self.tail.store(tail + count, Ordering::Relaxed);
        Ok(Some(len))
    }

    /// Whether the last message crossed the middle or the end of the ring: time to tell a sender
    /// that waits for room.
    pub(super) fn frees_half(&self, before: u64) -> bool {
        // Relaxed: called by the thread that popped.
        let tail = self.tail.load(Ordering::Relaxed);
        before / (CELLS / 2) != tail / (CELLS / 2)
    }

    /// Takes nothing more: no stamp has the lap of this place.
    pub(super) fn close(&self) {
        // Relaxed: called by the thread that pops; others see a ring without messages sooner or
        // later.
        self.tail.store(u64::MAX, Ordering::Relaxed);
    }

    /// Cells read, in all.
    pub(super) fn consumed(&self) -> u64 {
        // Relaxed: called by the thread that pops.
        self.tail.load(Ordering::Relaxed)
    }
}

fn store(cell: &Cell, bytes: &[u8]) {
    let mut words = cell.words.iter();
    let (chunks, rest) = bytes.as_chunks::<8>();
    for (chunk, word) in chunks.iter().zip(&mut words) {
        // Relaxed: published by the stamp.
        word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
    }
    if let (false, Some(word)) = (rest.is_empty(), words.next()) {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        // Relaxed: published by the stamp.
        word.store(u64::from_le_bytes(last), Ordering::Relaxed);
    }
}

fn load(cell: &Cell, bytes: &mut [u8]) {
    let mut words = cell.words.iter();
    let (chunks, rest) = bytes.as_chunks_mut::<8>();
    for (chunk, word) in chunks.iter_mut().zip(&mut words) {
        // Relaxed: ordered by the stamp.
        *chunk = word.load(Ordering::Relaxed).to_le_bytes();
    }
    if let (false, Some(word)) = (rest.is_empty(), words.next()) {
        // Relaxed: ordered by the stamp.
        let last = word.load(Ordering::Relaxed).to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn message(len: usize) -> Vec<u8> {
        (0..len).map(|i| u8::try_from(i * 7 % 251).unwrap()).collect()
    }

    #[test]
    fn messages_of_every_length_arrive_whole_and_in_order() {
        let (ring, mut producer, consumer) =
            (Ring::default(), Producer::default(), Consumer::default());
        let mut buffer = [0; MESSAGE_LEN_MAX];
        for round in 0..3 {
            for len in (0..=MESSAGE_LEN_MAX).step_by(if round == 0 { 1 } else { 61 }) {
                assert!(!consumer.is_ready(&ring));
                assert!(producer.push(&ring, &message(len)));
                assert!(consumer.is_ready(&ring));
                assert_eq!(consumer.pop(&ring, &mut buffer).unwrap(), Some(len));
                assert_eq!(buffer[..len], message(len));
            }
        }
        assert_eq!(consumer.pop(&ring, &mut buffer).unwrap(), None);
    }

    #[test]
    fn a_full_ring_takes_nothing_until_it_is_read() {
        let (ring, mut producer, consumer) =
            (Ring::default(), Producer::default(), Consumer::default());
        let sent = (0..).take_while(|_| producer.push(&ring, &message(100))).count();
        assert_eq!(sent as u64, CELLS / 2);
        let mut buffer = [0; MESSAGE_LEN_MAX];
        consumer.pop(&ring, &mut buffer).unwrap();
        assert!(producer.push(&ring, &message(112)));
        assert!(!producer.push(&ring, &[]));
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused() {
        let (ring, consumer) = (Ring::default(), Consumer::default());
        let stamp = lap(0) << LEN_BITS | 0xFFFF;
        ring.cells[0].stamp.store(stamp, Ordering::Relaxed);
        let error = consumer.pop(&ring, &mut [0; MESSAGE_LEN_MAX]).unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{error}");
        consumer.close();
        assert!(!consumer.is_ready(&ring));
        assert_eq!(consumer.pop(&ring, &mut [0; MESSAGE_LEN_MAX]).unwrap(), None);
    }

    #[test]
    fn a_receiver_that_lies_about_its_progress_only_stops_the_ring() {
        let (ring, mut producer) = (Ring::default(), Producer::default());
        ring.consumed.store(u64::MAX / 2, Ordering::Relaxed);
        while producer.push(&ring, &message(4000)) {}
        ring.consumed.store(u64::MAX, Ordering::Relaxed);
        assert!(!producer.push(&ring, &message(4000)));
    }
}
