//! A heap beside the simplest model of one: the live allocations in a sorted map.

use std::collections::BTreeMap;

use pangea_alloc::{BLOCK_BYTES, Error, Heap, Layout, Statistics};

/// A heap whose every answer is checked.
pub(crate) struct Shadow {
    heap: Heap,
    reserved: u64,
    capacity: u64,
    /// By offset.
    live: BTreeMap<u64, Layout>,
    live_bytes: u64,
}

impl Shadow {
    pub(crate) fn new(capacity: u64, reserved: u64) -> Self {
        let heap = Heap::new(capacity, reserved).unwrap();
        Self { heap, reserved, capacity, live: BTreeMap::new(), live_bytes: 0 }
    }

    pub(crate) fn allocate(&mut self, size: u64, align: u64) -> Result<u64, Error> {
        let layout = Layout::new(size, align).unwrap();
        let offset = match self.heap.allocate(layout) {
            Ok(offset) => offset,
            Err(error) => {
                self.check_refusal(size, align, error);
                return Err(error);
            }
        };
        assert_eq!(offset % align, 0, "alignment");
        assert!(offset >= self.reserved && offset + size <= self.capacity, "inside the heap");
        // An allocation of size zero has an offset of its own, as if it were a byte.
        let end = offset + size.max(1);
        if let Some((&before, other)) = self.live.range(..end).next_back() {
            assert!(before + other.size().max(1) <= offset, "{layout:?} overlaps {other:?}");
        }
        self.live.insert(offset, layout);
        self.live_bytes += size;
        Ok(offset)
    }

    pub(crate) fn free(&mut self, offset: u64) {
        let expected = match self.live.remove(&offset) {
            Some(layout) => {
                self.live_bytes -= layout.size();
                Ok(())
            }
            None => Err(Error::NotAllocated { offset }),
        };
        assert_eq!(self.heap.free(offset), expected);
    }

    /// Frees the live allocation that comes after `number` others, counted round.
    pub(crate) fn free_nth(&mut self, number: usize) -> Option<u64> {
        let number = number.checked_rem(self.live.len())?;
        let offset = *self.live.keys().nth(number)?;
        self.free(offset);
        Some(offset)
    }

    /// Frees the first live allocation at or after `place`, else the first of all.
    pub(crate) fn free_near(&mut self, place: u64) {
        let near = self.live.range(place..).next().or_else(|| self.live.first_key_value());
        if let Some((&offset, _)) = near {
            self.free(offset);
        }
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub(crate) fn check_statistics(&self) {
        let now = self.heap.statistics();
        assert_eq!(now.live_allocations, self.live.len() as u64);
        assert_eq!(now.live_bytes, self.live_bytes);
        assert_eq!(now.capacity_bytes, self.capacity);
        assert_eq!(now.reserved_bytes, self.reserved);
        let taken = now.capacity_bytes - now.reserved_bytes - now.free_bytes;
        assert!(now.live_bytes <= now.held_bytes && now.held_bytes <= taken, "{now:?}");
        assert!(now.held_bytes <= now.peak_bytes && now.peak_bytes <= self.capacity, "{now:?}");
        assert!(now.largest_free_bytes <= now.free_bytes);
        self.check_classes(&now);
    }

    /// Frees what is live and checks that all of the heap can then be had at once.
    pub(crate) fn check_full_reuse(mut self) {
        while self.free_nth(0).is_some() {}
        self.check_statistics();
        let room = self.capacity - self.reserved;
        assert_eq!(self.heap.statistics().free_bytes, room);
        assert_eq!(self.heap.statistics().largest_free_bytes, room);
        if room > 0 {
            let offset = self.allocate(room, 1).unwrap();
            self.free(offset);
        }
    }

    fn check_refusal(&self, size: u64, align: u64, error: Error) {
        let largest_free = self.heap.statistics().largest_free_bytes;
        let capacity = self.capacity;
        assert_eq!(error, Error::OutOfMemory { wanted: size, align, largest_free, capacity });
        if align <= BLOCK_BYTES {
            assert!(largest_free < size.max(1).next_multiple_of(BLOCK_BYTES), "{error}");
        }
        self.check_statistics();
    }

    /// Every live allocation is a slot of a class or has whole blocks, and nothing else is held.
    fn check_classes(&self, now: &Statistics) {
        let (mut live, mut held) = (0, 0);
        for class in &now.classes {
            assert!(class.live > 0 && class.live <= class.slots && class.slabs <= class.slots);
            live += class.live;
            held += class.live * class.slot_bytes;
        }
        for large in self.live.values().filter(|layout| is_large(layout)) {
            live += 1;
            held += large.size().max(1).next_multiple_of(BLOCK_BYTES);
        }
        assert_eq!((live, held), (now.live_allocations, now.held_bytes));
    }
}

fn is_large(layout: &Layout) -> bool {
    let padded = layout.size().next_multiple_of(layout.align());
    layout.align() > BLOCK_BYTES || padded > 2 * BLOCK_BYTES
}
