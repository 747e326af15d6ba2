//! How a heap is used, in numbers.

/// How a heap is used at one moment.
///
/// `live_bytes <= held_bytes <= capacity_bytes - reserved_bytes - free_bytes`: what was asked for,
/// what that was rounded up to, and the blocks that are taken by it, free slots included.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// The whole heap, in whole blocks.
    pub capacity_bytes: u64,
    /// What is never handed out, in whole blocks.
    pub reserved_bytes: u64,
    /// What lies in free spans.
    pub free_bytes: u64,
    /// The longest free span: the largest size that can be had, unless its alignment prevents it.
    pub largest_free_bytes: u64,
    /// Allocations that were made and not freed.
    pub live_allocations: u64,
    /// The sizes they asked for.
    pub live_bytes: u64,
    /// The slots and spans that they got.
    pub held_bytes: u64,
    /// The most that `held_bytes` has been.
    pub peak_bytes: u64,
    /// The size classes that have slabs, smallest first.
    pub classes: Vec<ClassStatistics>,
}

/// How the slots of one size are used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ClassStatistics {
    /// The size of a slot.
    pub slot_bytes: u64,
    /// Slabs that are cut into such slots.
    pub slabs: u64,
    /// Slots in them.
    pub slots: u64,
    /// Slots that are allocated.
    pub live: u64,
}

/// What is counted as allocations come and go.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) allocations: u64,
    pub(crate) asked: u64,
    pub(crate) held: u64,
    pub(crate) peak: u64,
}

impl Totals {
    /// Counts an allocation of `asked` bytes that got `held`.
    pub(crate) fn add(&mut self, asked: u64, held: u64) {
        assert!(asked <= held, "an allocation holds what was asked for");
        self.allocations += 1;
        self.asked += asked;
        self.held += held;
        self.peak = self.peak.max(self.held);
    }

    /// Counts that it was freed.
    pub(crate) fn remove(&mut self, asked: u64, held: u64) {
        self.allocations -= 1;
        self.asked -= asked;
        self.held -= held;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_outlasts_what_made_it() {
        let mut totals = Totals::default();
        totals.add(5, 8);
        totals.add(90, 96);
        totals.remove(90, 96);
        totals.add(1, 8);
        assert_eq!((totals.allocations, totals.asked, totals.held, totals.peak), (2, 6, 16, 104));
    }
}
