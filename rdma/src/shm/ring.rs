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
//! The stamp's Release in `push` pairs with the Acquires in `is_ready` and `pop`: who sees a stamp
//! of this lap sees the message. The Release of `consumed` in `pop` pairs with the Acquire in
//! `has_room`: who sees a cell given back may write it. All else is Relaxed, and atomic only
//! because the other side is a process that need not keep to this.

use crate::{
    Error, MESSAGE_LEN_MAX, Result,
    prefetch::prefetch_for_write,
    primitive::{AtomicU64, Ordering},
};

/// Cells of a ring: few enough for the rings of a conversation to stay in the first-level cache. A
/// model has fewer, so that the ring is full soon.
const CELL_COUNT: usize = if cfg!(loom) { 2 } else { 128 };
const CELLS: u64 = CELL_COUNT as u64;
/// Cells read between two calls to a sender that may wait for room.
const CELLS_PER_CALL: u64 = if cfg!(loom) { 1 } else { CELLS / 4 };

/// Bytes of a message in one cell.
const CELL_LEN: usize = WORDS * 8;
const WORDS: usize = 7;

/// Room for the cells of the longest message.
pub(super) type Buffer = [[u8; CELL_LEN]; MESSAGE_LEN_MAX.div_ceil(CELL_LEN)];
/// A buffer before its first message.
pub(super) const EMPTY: Buffer = [[0; CELL_LEN]; MESSAGE_LEN_MAX.div_ceil(CELL_LEN)];

/// Bits of a stamp that hold the length.
const LEN_BITS: u32 = 16;

const _: () = assert!(MESSAGE_LEN_MAX < 1 << LEN_BITS, "a length fits its part of a stamp");
const _: () = assert!(CELLS.is_power_of_two(), "a cell's index is the low bits of its number");
#[cfg(not(loom))]
const _: () = assert!(
    cells_of(MESSAGE_LEN_MAX) + CELLS_PER_CALL <= CELLS,
    "after the last call to a sender there is room for any message"
);

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

    /// Gets the cell that will be used as the `number`th ready for being written: it comes from the
    /// receiver's cache, which takes as long as the message itself.
    #[inline]
    pub(super) fn prepare(&self, number: u64) {
        prefetch_for_write(self.cell(number));
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
        // Release: pairs with the Acquire in `Consumer::pop`; the message is visible before it.
        ring.cell(self.head).stamp.store(stamp, Ordering::Release);
        self.head += count;
        true
    }

    /// Cells written, in all.
    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// Whether a sender that found the ring full should try again: there is room for any message.
    pub(super) fn has_room_for_any(&mut self, ring: &Ring) -> bool {
        self.has_room(ring, cells_of(MESSAGE_LEN_MAX))
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
    // Cells read, in all. Written in the receiver's turn, read out of it by `is_ready`.
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
    pub(super) fn pop(&self, ring: &Ring, buffer: &mut Buffer) -> Result<Option<usize>> {
        // Relaxed: only this function writes it, one thread at a time.
        let tail = self.tail.load(Ordering::Relaxed);
        // Acquire: pairs with the Release in `Producer::push`; the message is read after its stamp.
        let stamp = ring.cell(tail).stamp.load(Ordering::Acquire);
        if stamp >> LEN_BITS != lap(tail) {
            return Ok(None);
        }
        let len = usize::try_from(stamp & ((1 << LEN_BITS) - 1)).expect("16 bits are a usize");
        if len > MESSAGE_LEN_MAX {
            return Err(too_long(len));
        }
        let count = cells_of(len);
        for (number, part) in (tail..tail + count).zip(&mut buffer[..]) {
            load(ring.cell(number), part);
        }
        // Release: pairs with the Acquire in `Producer::has_room`; the cells were read before.
        ring.consumed.store(tail + count, Ordering::Release);
        // Relaxed: see `is_ready`.
        self.tail.store(tail + count, Ordering::Relaxed);
        Ok(Some(len))
    }

    /// Whether it is time to call a sender that waits for room, after a message before which
    /// `before` cells had been read.
    pub(super) fn is_call_due(&self, before: u64) -> bool {
        // Relaxed: called by the thread that popped.
        let tail = self.tail.load(Ordering::Relaxed);
        before / CELLS_PER_CALL != tail / CELLS_PER_CALL
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

#[cold]
fn too_long(len: usize) -> Error {
    Error::protocol(format!("a message of {len} bytes, where {MESSAGE_LEN_MAX} are allowed"))
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

/// Copies all of a cell: that takes fewer steps than to look how much of it is message.
fn load(cell: &Cell, bytes: &mut [u8; CELL_LEN]) {
    for (part, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(&cell.words) {
        // Relaxed: ordered by the stamp.
        *part = word.load(Ordering::Relaxed).to_le_bytes();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
