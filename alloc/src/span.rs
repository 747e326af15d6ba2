//! Spans: runs of blocks, and the set of those that are free.

use std::collections::{BTreeMap, BTreeSet};

/// The unit in which a heap is divided: 16 KiB, a page of the largest kind in use.
pub const BLOCK_BYTES: u64 = 16 << 10;

/// How many runs are tried that hold the request only if they happen to start well.
const NEAR_FITS: usize = 16;

/// A run of blocks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Span {
    pub(crate) first: u64,
    pub(crate) blocks: u64,
}

impl Span {
    /// The byte offset at which the span starts.
    pub(crate) const fn offset(self) -> u64 {
        self.first * BLOCK_BYTES
    }

    /// Its length in bytes.
    pub(crate) const fn bytes(self) -> u64 {
        self.blocks * BLOCK_BYTES
    }

    /// The block after the last.
    const fn end(self) -> u64 {
        self.first + self.blocks
    }

    /// The first part that has `blocks` blocks and starts at a multiple of `align` blocks.
    fn part(self, blocks: u64, align: u64) -> Option<Self> {
        // Cannot overflow: a heap has at most 2^34 blocks, an alignment at most 2^49.
        let first = self.first.next_multiple_of(align);
        (first + blocks <= self.end()).then_some(Self { first, blocks })
    }
}

/// The free blocks of a heap, as the longest spans that they form.
#[derive(Debug, Default)]
pub(crate) struct FreeSpans {
    // Both hold the same spans.
    by_place: BTreeMap<u64, u64>,
    by_length: BTreeSet<(u64, u64)>,
    blocks: u64,
}

impl FreeSpans {
    /// Cuts `blocks` blocks, starting at a multiple of `align` blocks, out of the best fit.
    pub(crate) fn take(&mut self, blocks: u64, align: u64) -> Option<Span> {
        let (whole, part) = self.best_fit(blocks, align)?;
        self.remove(whole);
        self.insert(Span { first: whole.first, blocks: part.first - whole.first });
        self.insert(Span { first: part.end(), blocks: whole.end() - part.end() });
        Some(part)
    }

    /// Takes a span back and joins it with what is free on either side.
    pub(crate) fn give(&mut self, span: Span) {
        let mut joined = span;
        if let Some(before) = self.before(span.end()) {
            assert!(before.end() <= span.first, "a span is given back once");
            if before.end() == span.first {
                self.remove(before);
                joined = Span { first: before.first, blocks: before.blocks + span.blocks };
            }
        }
        if let Some(&blocks) = self.by_place.get(&span.end()) {
            self.remove(Span { first: span.end(), blocks });
            joined.blocks += blocks;
        }
        self.insert(joined);
    }

    /// How many blocks are free.
    pub(crate) const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// How many blocks the longest free span has.
    pub(crate) fn longest(&self) -> u64 {
        self.by_length.last().map_or(0, |&(blocks, _)| blocks)
    }

    /// The shortest free span that holds such a part, and the part.
    ///
    /// A span with `align - 1` blocks to spare holds it wherever it starts. Those with fewer may or
    /// may not: some are tried first, as they may leave no remainder, and the rest only when all
    /// else has failed, so that no number of them slows down a heap that has room.
    fn best_fit(&self, blocks: u64, align: u64) -> Option<(Span, Span)> {
        let fits = |&(length, first): &(u64, u64)| {
            let whole = Span { first, blocks: length };
            Some((whole, whole.part(blocks, align)?))
        };
        let roomy = (blocks + align - 1, 0);
        let near = self.by_length.range((blocks, 0)..roomy);
        let nearest = near.clone().take(NEAR_FITS).find_map(fits);
        nearest
            .or_else(|| self.by_length.range(roomy..).find_map(fits))
            .or_else(|| near.skip(NEAR_FITS).find_map(fits))
    }

    /// The last free span that starts before block `end`.
    fn before(&self, end: u64) -> Option<Span> {
        let (&first, &blocks) = self.by_place.range(..end).next_back()?;
        Some(Span { first, blocks })
    }

    fn insert(&mut self, span: Span) {
        if span.blocks > 0 {
            self.by_place.insert(span.first, span.blocks);
            self.by_length.insert((span.blocks, span.first));
            self.blocks += span.blocks;
        }
    }

    fn remove(&mut self, span: Span) {
        self.by_place.remove(&span.first);
        self.by_length.remove(&(span.blocks, span.first));
        self.blocks -= span.blocks;
    }
}

#[cfg(test)]
mod tests;
