//! A node's segment: where its peers leave messages and wake it.
//!
//! ```text
//! 0          128        256        384                       384 + rings
//! +----------+----------+----------+-------------------------+
//! | doorbell | doorbell | signs    | a ring from each node   |
//! | messages | signals  | of life  | (itself among them)     |
//! +----------+----------+----------+-------------------------+
//! ```

use std::{mem::size_of, ptr::NonNull, sync::OnceLock};

use super::ring::Ring;
use crate::{
    Mapping, NodeId, Result,
    bell::Rope,
    primitive::{AtomicU32, Ordering},
    wait::Doorbell,
};

/// Offset of the doorbell for messages.
const MESSAGES: u64 = 0;
/// Offset of the doorbell for words that peers write.
const SIGNALS: u64 = size_of::<Doorbell>() as u64;
/// Offset of the node's signs of life.
const LIFE: u64 = 2 * size_of::<Doorbell>() as u64;
/// Offset of the first ring.
const RINGS: u64 = LIFE + size_of::<Life>() as u64;

/// How often a node has given a sign of life, modulo 2^32.
#[derive(Debug)]
#[repr(C, align(128))]
struct Life {
    beats: AtomicU32,
}

/// A segment, mapped: this node's own, or a peer's.
#[derive(Debug)]
pub(super) struct Segment {
    mapping: Mapping,
    nodes: u16,
    // By which the node is woken where it listens to other hosts as well.
    rope: OnceLock<Rope>,
}

impl Segment {
    /// Bytes of the segment of a node that has `nodes` peers, itself among them.
    pub(super) fn len(nodes: u16) -> usize {
        let rings = usize::from(nodes) * size_of::<Ring>();
        usize::try_from(RINGS).expect("a small number") + rings
    }

    /// Takes in a mapping of fresh memory, or of a peer's segment.
    pub(super) fn new(mapping: Mapping, nodes: u16) -> Result<Self> {
        mapping.range(0, Self::len(nodes) as u64)?;
        Ok(Self { mapping, nodes, rope: OnceLock::new() })
    }

    /// Its memory, for peers to map.
    pub(super) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Rung when a message has been sent to this segment's node, or room has been made for one that
    /// it wants to send.
    #[inline]
    pub(super) fn messages(&self) -> &Doorbell {
        self.part(MESSAGES)
    }

    /// Rung when a word of this segment's node has been written.
    #[inline]
    pub(super) fn signals(&self) -> &Doorbell {
        self.part(SIGNALS)
    }

    /// Wakes who waits for a message, or for room for one.
    #[inline]
    pub(super) fn ring_messages(&self) {
        if self.messages().ring() {
            self.call();
        }
    }

    /// Wakes who waits for a word of this segment's node.
    #[inline]
    pub(super) fn ring_signals(&self) {
        if self.signals().ring() {
            self.call();
        }
    }

    /// Gives a sign of life.
    pub(super) fn beat(&self) {
        // Relaxed: that it changes is all that counts.
        self.part::<Life>(LIFE).beats.fetch_add(1, Ordering::Relaxed);
    }

    /// A number that changes while this segment's node lives.
    pub(super) fn beats(&self) -> u32 {
        // Relaxed: as above.
        self.part::<Life>(LIFE).beats.load(Ordering::Relaxed)
    }

    /// Lets `rope` wake this segment's node where it listens.
    pub(super) fn tie(&self, rope: Rope) {
        // Tied once, where nodes of several hosts meet.
        _ = self.rope.set(rope);
    }

    pub(super) fn rope(&self) -> Option<&Rope> {
        self.rope.get()
    }

    #[cold]
    fn call(&self) {
        if let Some(rope) = self.rope.get() {
            rope.pull();
        }
    }

    /// The ring from `source` to this segment's node.
    #[inline]
    pub(super) fn ring_from(&self, source: NodeId) -> &Ring {
        assert!(source.number() < self.nodes, "a segment has a ring for each node");
        self.part(RINGS + source.index() as u64 * size_of::<Ring>() as u64)
    }

    /// Breaks the ring from `source`, as a hostile peer could.
    #[cfg(all(test, not(loom)))]
    pub(super) fn deface_ring(&self, source: NodeId) {
        let ring = RINGS + source.index() as u64 * size_of::<Ring>() as u64;
        let first_stamp = self.mapping.word(ring + 128).expect("inside the segment");
        // A stamp of the first lap, with the largest length.
        first_stamp.store(1 << 16 | 0xFFFF, Ordering::Relaxed);
    }

    /// The part of the segment at `offset`, which is one of the layout's.
    #[inline]
    fn part<T: Atomics>(&self, offset: u64) -> &T {
        debug_assert!(offset + size_of::<T>() as u64 <= self.mapping.len() as u64);
        let start: NonNull<u8> = self.mapping.as_ptr();
        let offset = usize::try_from(offset).expect("an offset in a mapping is an address");
        // SAFETY: callers pass an offset of the layout, which lies inside the mapping (its length
        // was checked by `new`).
        let part = unsafe { start.add(offset) }.cast::<T>();
        // SAFETY: the part is inside the mapping and lives as long as `self`; mappings are page
        // aligned and offsets multiples of 128; `T` is made of atomics, for which all bytes are
        // valid and which other processes may change at any time.
        unsafe { part.as_ref() }
    }
}

/// What may lie in a segment.
///
/// # Safety
///
/// Made of atomics, or of bytes that are never read; aligned to 128 bytes at most.
unsafe trait Atomics {}
// SAFETY: two atomics.
unsafe impl Atomics for Doorbell {}
// SAFETY: an atomic, and padding that nobody reads.
unsafe impl Atomics for Life {}
// SAFETY: atomics, and padding that nobody reads.
unsafe impl Atomics for Ring {}
