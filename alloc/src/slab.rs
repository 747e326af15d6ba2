//! A slab: a span cut into equal slots, and which of them are live.

use crate::size_class::SizeClass;
use crate::span::Span;

/// Slots to a word of the map of free slots.
const WORD_BITS: usize = u64::BITS as usize;

/// A span cut into slots of one class.
#[derive(Debug)]
pub(crate) struct Slab {
    span: Span,
    class: SizeClass,
    /// A bit for each slot, set while it is free.
    free: Box<[u64]>,
    /// For each live slot, the size that was asked for.
    asked: Box<[u16]>,
    live: usize,
    /// No word before this one has a free slot.
    first_word: usize,
}

impl Slab {
    /// A slab without live slots in `span`.
    pub(crate) fn new(span: Span, class: SizeClass) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "a slab has a few blocks")]
        let slots = (span.bytes() / class.slot_bytes()) as usize;
        assert!(slots > 0, "a slab has slots");
        // The bits after the last slot stay set: the lowest free slot is taken, so none is reached.
        let free = vec![u64::MAX; slots.div_ceil(WORD_BITS)].into_boxed_slice();
        let asked = vec![0; slots].into_boxed_slice();
        Self { span, class, free, asked, live: 0, first_word: 0 }
    }

    /// Makes the lowest free slot live for a request of `asked` bytes, and returns its offset.
    ///
    /// The slab must not be full.
    pub(crate) fn take(&mut self, asked: u64) -> u64 {
        assert!(!self.is_full(), "a slot is taken from a slab that has one");
        assert!(asked <= self.class.slot_bytes(), "a slot holds what is asked for");
        while self.free[self.first_word] == 0 {
            self.first_word += 1;
        }
        let bit = self.free[self.first_word].trailing_zeros();
        self.free[self.first_word] &= !(1 << bit);
        let slot = self.first_word * WORD_BITS + bit as usize;
        #[expect(clippy::cast_possible_truncation, reason = "the largest slot has 32 KiB")]
        let asked = asked as u16;
        self.asked[slot] = asked;
        self.live += 1;
        self.span.offset() + slot as u64 * self.class.slot_bytes()
    }

    /// The size that was asked for the live slot that starts at `offset`; none if none does.
    pub(crate) fn asked(&self, offset: u64) -> Option<u64> {
        let slot = self.live_slot(offset)?;
        Some(u64::from(self.asked[slot]))
    }

    /// Frees the live slot that starts at `offset` and returns the size that was asked for; none if
    /// no live slot starts there.
    pub(crate) fn give(&mut self, offset: u64) -> Option<u64> {
        let slot = self.live_slot(offset)?;
        let word = slot / WORD_BITS;
        self.free[word] |= 1 << (slot % WORD_BITS);
        self.first_word = self.first_word.min(word);
        self.live -= 1;
        Some(u64::from(self.asked[slot]))
    }

    fn live_slot(&self, offset: u64) -> Option<usize> {
        let distance = offset.checked_sub(self.span.offset())?;
        if distance % self.class.slot_bytes() != 0 {
            return None;
        }
        let slot = usize::try_from(distance / self.class.slot_bytes()).ok()?;
        let is_live =
            slot < self.slots() && self.free[slot / WORD_BITS] & 1 << (slot % WORD_BITS) == 0;
        is_live.then_some(slot)
    }

    /// The blocks that it takes up.
    pub(crate) const fn span(&self) -> Span {
        self.span
    }

    /// The class of its slots.
    pub(crate) const fn class(&self) -> SizeClass {
        self.class
    }

    /// How many slots it has.
    pub(crate) const fn slots(&self) -> usize {
        self.asked.len()
    }

    /// How many slots are free.
    pub(crate) const fn free_slots(&self) -> usize {
        self.slots() - self.live
    }

    /// Whether all slots are live.
    pub(crate) const fn is_full(&self) -> bool {
        self.free_slots() == 0
    }

    /// Whether no slot is.
    pub(crate) const fn is_empty(&self) -> bool {
        self.live == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::span::BLOCK_BYTES;

    /// 204 slots of 80 bytes, from the second block on.
    fn slab() -> Slab {
        let class = SizeClass::of(Layout::new(80, 8).unwrap()).unwrap();
        Slab::new(Span { first: 1, blocks: 1 }, class)
    }

    #[test]
    fn slots_are_taken_from_the_lowest_up_until_it_is_full() {
        let mut slab = slab();
        for slot in 0..204 {
            assert_eq!(slab.take(75), BLOCK_BYTES + slot * 80);
        }
        assert!(slab.is_full());
        assert_eq!(slab.give(BLOCK_BYTES + 150 * 80), Some(75));
        assert_eq!(slab.give(BLOCK_BYTES + 3 * 80), Some(75));
        assert_eq!(slab.take(0), BLOCK_BYTES + 3 * 80);
        assert_eq!(slab.take(80), BLOCK_BYTES + 150 * 80);
        assert_eq!(slab.give(BLOCK_BYTES + 150 * 80), Some(80));
    }

    #[test]
    fn only_the_start_of_a_live_slot_can_be_given_back() {
        let mut slab = slab();
        let live = slab.take(80);
        let past_the_last_slot = BLOCK_BYTES + 204 * 80;
        for offset in [0, live + 1, live + 80, past_the_last_slot, 2 * BLOCK_BYTES, u64::MAX] {
            assert_eq!(slab.asked(offset), None, "{offset}");
            assert_eq!(slab.give(offset), None, "{offset}");
        }
        assert_eq!(slab.asked(live), Some(80));
        assert_eq!(slab.give(live), Some(80));
        assert_eq!(slab.asked(live), None);
        assert_eq!(slab.give(live), None);
        assert!(slab.is_empty());
    }
}
