//! The slabs of one class: which have a free slot, and how many there are.

use std::collections::BTreeSet;

use crate::slab::Slab;
use crate::span::Span;

/// The slabs of one class, each named by the first block of its span.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    /// Those with live and free slots.
    open: BTreeSet<u64>,
    /// One without live slots, kept so that a program on the edge of needing a slab more does not
    /// cut one for each allocation.
    spare: Option<u64>,
    slabs: u64,
    slots: u64,
    live: u64,
}

impl Shelf {
    /// The slab to take a slot from: the lowest that is in use anyway, else the spare.
    pub(crate) fn next(&self) -> Option<u64> {
        self.open.first().copied().or(self.spare)
    }

    /// Takes in that `slab` was cut. No other slab of the class has a free slot.
    pub(crate) fn on_cut(&mut self, slab: &Slab) {
        assert!(self.next().is_none(), "a slab is cut when no other has room");
        self.slabs += 1;
        self.slots += slab.slots() as u64;
        self.spare = Some(slab.span().first);
    }

    /// Takes in that a slot of `slab` was taken.
    pub(crate) fn on_take(&mut self, slab: &Slab) {
        self.live += 1;
        let first = slab.span().first;
        if self.spare.take_if(|spare| *spare == first).is_some() {
            self.open.insert(first);
        }
        if slab.is_full() {
            self.open.remove(&first);
        }
    }

    /// Takes in that a slot of `slab` was freed, and returns the slab's span if it is to be given
    /// back.
    #[must_use]
    pub(crate) fn on_give(&mut self, slab: &Slab) -> Option<Span> {
        self.live -= 1;
        let first = slab.span().first;
        if !slab.is_empty() {
            if slab.free_slots() == 1 {
                // Until now it was full.
                self.open.insert(first);
            }
            return None;
        }
        self.open.remove(&first);
        if self.spare.is_none() {
            self.spare = Some(first);
            return None;
        }
        self.forget(slab);
        Some(slab.span())
    }

    /// The spare, if there is one; it is to be given back.
    pub(crate) fn take_spare(&mut self) -> Option<u64> {
        self.spare.take()
    }

    /// Takes in that `slab` is no more.
    pub(crate) fn forget(&mut self, slab: &Slab) {
        self.slabs -= 1;
        self.slots -= slab.slots() as u64;
    }

    /// Slabs, slots, and live slots.
    pub(crate) const fn counts(&self) -> (u64, u64, u64) {
        (self.slabs, self.slots, self.live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::size_class::SizeClass;

    /// A slab of two slots.
    fn cut(shelf: &mut Shelf, first: u64) -> Slab {
        let class = SizeClass::of(Layout::new(8 << 10, 8).unwrap()).unwrap();
        let slab = Slab::new(Span { first, blocks: 1 }, class);
        shelf.on_cut(&slab);
        slab
    }

    fn take(shelf: &mut Shelf, slab: &mut Slab) -> u64 {
        let offset = slab.take(1);
        shelf.on_take(slab);
        offset
    }

    fn give(shelf: &mut Shelf, slab: &mut Slab, offset: u64) -> Option<Span> {
        slab.give(offset).unwrap();
        shelf.on_give(slab)
    }

    #[test]
    fn one_empty_slab_is_kept_and_the_next_given_back() {
        let mut shelf = Shelf::default();
        let mut low = cut(&mut shelf, 0);
        let of_low = [take(&mut shelf, &mut low), take(&mut shelf, &mut low)];
        let mut high = cut(&mut shelf, 7);
        let of_high = take(&mut shelf, &mut high);

        assert_eq!(give(&mut shelf, &mut low, of_low[0]), None);
        assert_eq!(shelf.next(), Some(0), "the lowest of those in use");
        assert_eq!(give(&mut shelf, &mut low, of_low[1]), None);
        assert_eq!(shelf.next(), Some(7), "the spare only when nothing else has room");
        assert_eq!(give(&mut shelf, &mut high, of_high), Some(high.span()));
        assert_eq!(shelf.next(), Some(0));
        assert_eq!(shelf.counts(), (1, 2, 0));
    }
}
