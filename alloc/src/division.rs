//! How a heap is divided now: the free spans, and what has taken the others.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::shelf::Shelf;
use crate::size_class::SizeClass;
use crate::slab::Slab;
use crate::span::{BLOCK_BYTES, FreeSpans, Span};
use crate::statistics::{ClassStatistics, Statistics, Totals};

/// Every block of a heap belongs to the reserved part, to a free span, or to one entry of `taken`.
#[derive(Debug)]
pub(crate) struct Division {
    capacity_blocks: u64,
    reserved_blocks: u64,
    free: FreeSpans,
    /// By first block, so that the span around an offset is found as the last that starts before
    /// it.
    taken: BTreeMap<u64, Taken>,
    /// By class.
    shelves: [Shelf; SizeClass::COUNT],
    totals: Totals,
}

/// What has taken a span.
#[derive(Debug)]
enum Taken {
    /// One allocation.
    Large { blocks: u64, asked: u64 },
    /// Many small ones.
    Slab(Slab),
}

impl Division {
    /// A heap in which all but the first `reserved_blocks` is free.
    pub(crate) fn new(capacity_blocks: u64, reserved_blocks: u64) -> Self {
        let mut division = Self {
            capacity_blocks: reserved_blocks,
            reserved_blocks,
            free: FreeSpans::default(),
            taken: BTreeMap::new(),
            shelves: std::array::from_fn(|_| Shelf::default()),
            totals: Totals::default(),
        };
        division.grow(capacity_blocks);
        division
    }

    pub(crate) fn allocate(&mut self, layout: Layout) -> Result<u64> {
        let allocated = match SizeClass::of(layout) {
            Some(class) => self.allocate_slot(class, layout.size()),
            None => self.allocate_span(layout),
        };
        allocated.ok_or_else(|| Error::OutOfMemory {
            wanted: layout.size(),
            align: layout.align(),
            largest_free: self.free.longest() * BLOCK_BYTES,
            capacity: self.capacity_blocks * BLOCK_BYTES,
        })
    }

    pub(crate) fn free(&mut self, offset: u64) -> Result<()> {
        let not_allocated = Error::NotAllocated { offset };
        // The offset may lie beyond the end of what is found here, or anywhere within: it comes
        // from the caller, and only what starts exactly there is freed.
        let around = self.taken.range_mut(..=offset / BLOCK_BYTES).next_back();
        let (&first, taken) = around.ok_or(not_allocated)?;
        match *taken {
            Taken::Slab(ref mut slab) => {
                let asked = slab.give(offset).ok_or(not_allocated)?;
                self.totals.remove(asked, slab.class().slot_bytes());
                if let Some(span) = self.shelves[slab.class().index()].on_give(slab) {
                    self.give_span(span);
                }
            }
            Taken::Large { blocks, asked } => {
                let span = Span { first, blocks };
                if offset != span.offset() {
                    return Err(not_allocated);
                }
                self.totals.remove(asked, span.bytes());
                self.give_span(span);
            }
        }
        Ok(())
    }

    pub(crate) fn size(&self, offset: u64) -> Result<u64> {
        let around = self.taken.range(..=offset / BLOCK_BYTES).next_back();
        let asked = around.and_then(|(&first, taken)| match *taken {
            Taken::Slab(ref slab) => slab.asked(offset),
            Taken::Large { blocks, asked } => {
                (offset == Span { first, blocks }.offset()).then_some(asked)
            }
        });
        asked.ok_or(Error::NotAllocated { offset })
    }

    pub(crate) fn grow(&mut self, capacity_blocks: u64) {
        if let Some(blocks @ 1..) = capacity_blocks.checked_sub(self.capacity_blocks) {
            self.free.give(Span { first: self.capacity_blocks, blocks });
            self.capacity_blocks = capacity_blocks;
        }
    }

    pub(crate) fn statistics(&mut self) -> Statistics {
        // A request could have the spares, so they count as free.
        self.give_back_spares();
        Statistics {
            capacity_bytes: self.capacity_blocks * BLOCK_BYTES,
            reserved_bytes: self.reserved_blocks * BLOCK_BYTES,
            free_bytes: self.free.blocks() * BLOCK_BYTES,
            largest_free_bytes: self.free.longest() * BLOCK_BYTES,
            live_allocations: self.totals.allocations,
            live_bytes: self.totals.asked,
            held_bytes: self.totals.held,
            peak_bytes: self.totals.peak,
            classes: self.class_statistics(),
        }
    }

    fn allocate_slot(&mut self, class: SizeClass, asked: u64) -> Option<u64> {
        let first = match self.shelves[class.index()].next() {
            Some(first) => first,
            None => self.cut_slab(class)?,
        };
        let Some(Taken::Slab(slab)) = self.taken.get_mut(&first) else {
            unreachable!("a shelf names slabs");
        };
        let offset = slab.take(asked);
        self.shelves[class.index()].on_take(slab);
        self.totals.add(asked, class.slot_bytes());
        Some(offset)
    }

    fn allocate_span(&mut self, layout: Layout) -> Option<u64> {
        let blocks = layout.size().max(1).div_ceil(BLOCK_BYTES);
        let span = self.take_span(blocks, layout.align().div_ceil(BLOCK_BYTES))?;
        self.taken.insert(span.first, Taken::Large { blocks, asked: layout.size() });
        self.totals.add(layout.size(), span.bytes());
        Some(span.offset())
    }

    /// Cuts a slab of the usual length, or the shortest there can be, and returns its first block.
    fn cut_slab(&mut self, class: SizeClass) -> Option<u64> {
        let usual = self.take_span(class.slab_blocks(), 1);
        let span = usual.or_else(|| self.free.take(class.slab_blocks_min(), 1))?;
        let slab = Slab::new(span, class);
        self.shelves[class.index()].on_cut(&slab);
        self.taken.insert(span.first, Taken::Slab(slab));
        Some(span.first)
    }

    /// Takes a free span, for which the spare slabs make way if they must.
    fn take_span(&mut self, blocks: u64, align: u64) -> Option<Span> {
        if let Some(span) = self.free.take(blocks, align) {
            return Some(span);
        }
        self.give_back_spares();
        self.free.take(blocks, align)
    }

    fn give_span(&mut self, span: Span) {
        let taken = self.taken.remove(&span.first);
        assert!(taken.is_some(), "a span that is given back was taken");
        self.free.give(span);
    }

    fn give_back_spares(&mut self) {
        for class in SizeClass::all() {
            let shelf = &mut self.shelves[class.index()];
            let spare = shelf.take_spare().and_then(|first| self.taken.remove(&first));
            if let Some(Taken::Slab(slab)) = spare {
                shelf.forget(&slab);
                self.free.give(slab.span());
            }
        }
    }

    fn class_statistics(&self) -> Vec<ClassStatistics> {
        let shelves = SizeClass::all().zip(&self.shelves);
        let of_class = |(class, shelf): (SizeClass, &Shelf)| {
            let (slabs, slots, live) = shelf.counts();
            let slot_bytes = class.slot_bytes();
            (slabs > 0).then_some(ClassStatistics { slot_bytes, slabs, slots, live })
        };
        shelves.filter_map(of_class).collect()
    }
}
