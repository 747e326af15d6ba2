//! Size classes: the few slot sizes that small requests are rounded up to.
//!
//! In units of [`GRANULE`] bytes the classes are 1 to 16 by ones, to 32 by twos, to 64 by fours,
//! and so on: a number with four significant bits, so a class is found by a shift, without a table.

use crate::layout::Layout;
use crate::span::BLOCK_BYTES;

/// The smallest slot, and what all slots are multiples of.
const GRANULE: u64 = 8;
/// Classes to each doubling of the size. Rounding adds at most one part in as many.
const STEPS: u64 = 8;
/// The largest slot. A span would round what is just above a block up to two.
const LARGEST: u64 = 2 * BLOCK_BYTES;
/// The fewest slots that make a slab worth its record.
const SLOTS_MIN: u64 = 4;
/// At most one part in so many of a slab is lost after its last slot.
const TAIL_PARTS: u64 = 16;

const _: () = assert!(SizeClass(SizeClass::COUNT - 1).slot_bytes() == LARGEST);

/// One of the slot sizes, smallest first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SizeClass(usize);

impl SizeClass {
    /// How many classes there are.
    pub(crate) const COUNT: usize = 80;

    /// Every class, smallest first.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// The smallest class that satisfies `layout`; none if it takes a span of its own.
    ///
    /// A size that is a multiple of the alignment falls into a class that is one too: either the
    /// classes around it are spaced by a multiple of the alignment, or the alignment is a multiple
    /// of their spacing and the size is a class itself.
    pub(crate) fn of(layout: Layout) -> Option<Self> {
        let size = layout.size().max(1).next_multiple_of(layout.align());
        // Slabs start at a block, so no slot is aligned further than that.
        if layout.align() > BLOCK_BYTES || size > LARGEST {
            return None;
        }
        let last_granule = (size - 1) / GRANULE;
        let shift = (last_granule | STEPS).ilog2() - STEPS.ilog2();
        let class = u64::from(shift) * STEPS + (last_granule >> shift);
        usize::try_from(class).ok().map(Self)
    }

    /// Which class this is, counted from the smallest.
    pub(crate) const fn index(self) -> usize {
        self.0
    }

    /// The size of a slot.
    pub(crate) const fn slot_bytes(self) -> u64 {
        let class = self.0 as u64;
        let shift = (class / STEPS).saturating_sub(1);
        (class - shift * STEPS + 1) * (GRANULE << shift)
    }

    /// How many blocks a slab should have, for enough slots and little loss at its end.
    pub(crate) fn slab_blocks(self) -> u64 {
        let slot = self.slot_bytes();
        let suits = |blocks: &u64| {
            let bytes = blocks * BLOCK_BYTES;
            bytes / slot >= SLOTS_MIN && bytes % slot <= bytes / TAIL_PARTS
        };
        // With as many blocks as slots fill exactly, `slot` of them at the latest, nothing is lost.
        (1..=slot).find(suits).unwrap_or(slot)
    }

    /// How many blocks a slab needs to have one slot.
    pub(crate) const fn slab_blocks_min(self) -> u64 {
        self.slot_bytes().div_ceil(BLOCK_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(size: u64, align: u64) -> Option<SizeClass> {
        SizeClass::of(Layout::new(size, align).unwrap())
    }

    #[test]
    fn a_size_gets_the_smallest_class_that_holds_it() {
        for size in 0..=LARGEST {
            let smallest = SizeClass::all().find(|class| class.slot_bytes() >= size);
            assert_eq!(class(size, 1), smallest, "size {size}");
        }
        assert_eq!(class(LARGEST + 1, 1), None);
    }

    #[test]
    fn rounding_adds_at_most_an_eighth_or_seven_bytes() {
        for size in 1..=LARGEST {
            let added = class(size, 1).unwrap().slot_bytes() - size;
            assert!(added <= (size / 8).max(7), "size {size} grows by {added}");
        }
    }

    #[test]
    fn a_slot_has_the_alignment_asked_for() {
        for align in (0..=14).map(|shift| 1 << shift) {
            for size in (0..=LARGEST).step_by(3) {
                let slot = class(size, align).unwrap().slot_bytes();
                assert_eq!(slot % align, 0, "size {size} align {align}");
                assert!(slot >= size);
            }
        }
        assert_eq!(class(1, 2 * BLOCK_BYTES), None);
    }

    #[test]
    fn a_slab_loses_little_and_stays_short() {
        for class in SizeClass::all() {
            let (blocks, slot) = (class.slab_blocks(), class.slot_bytes());
            let bytes = blocks * BLOCK_BYTES;
            assert!(bytes / slot >= SLOTS_MIN && blocks <= 10, "{slot}: {blocks} blocks");
            assert!(bytes % slot <= bytes / TAIL_PARTS, "{slot}: tail");
            assert!(class.slab_blocks_min() <= blocks);
        }
    }
}
