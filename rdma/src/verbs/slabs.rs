//! Which parts of the nodes' memory devices may touch: slabs, registered when first used.
//!
//! Registering pins memory, and heaps are sparse and as large as the machine's: so a heap is cut
//! into slabs, and a peer learns of a slab when it first has business there. This is the pure part:
//! where slabs begin, and what is known of a peer's.

use std::{collections::HashMap, ops::Range};

use crate::Region;

/// Bytes of a slab: few messages, and not much more pinned than is used.
pub(super) const SLAB_LEN: u64 = 64 << 20;

/// The slab of a mapping of `len` bytes at `address` that holds the byte at `offset`, as offsets.
///
/// Slabs are cut where addresses are multiples of their length, so that none crosses a multiple of
/// 4 GiB.
pub(super) fn slab_of(address: u64, len: u64, offset: u64) -> Range<u64> {
    assert!(offset < len, "a slab has something in it");
    let start = (address + offset) / SLAB_LEN * SLAB_LEN;
    start.saturating_sub(address)..(start + SLAB_LEN - address).min(len)
}

/// A slab of a peer, as the peer's device knows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Slab {
    /// Where it begins in its region.
    pub(super) start: u64,
    /// Its length.
    pub(super) len: u64,
    /// Its address at the peer.
    pub(super) address: u64,
    /// Names its memory region.
    pub(super) key: u32,
}

impl Slab {
    fn contains(&self, offset: u64) -> bool {
        offset.checked_sub(self.start).is_some_and(|inside| inside < self.len)
    }

    /// Bytes from `offset` to the slab's end.
    pub(super) fn rest(&self, offset: u64) -> u64 {
        self.start + self.len - offset
    }

    /// The peer's address of `offset`.
    pub(super) fn address_of(&self, offset: u64) -> u64 {
        self.address + (offset - self.start)
    }
}

/// What a peer has told of a region.
#[derive(Debug, Default)]
struct Known {
    // The most that was told: no slab ends beyond it.
    capacity: u64,
    // Sorted by their beginnings.
    slabs: Vec<Slab>,
}

/// What a peer has told of its slabs.
#[derive(Debug, Default)]
pub(super) struct PeerSlabs {
    known: HashMap<Region, Known>,
    // The one that was found last: most operations follow one close by.
    last: Option<(Region, Slab, u64)>,
}

impl PeerSlabs {
    /// The slab that holds the byte at `offset` of `region`, if it is known, and how many bytes the
    /// region has.
    #[inline]
    pub(super) fn find(&mut self, region: Region, offset: u64) -> Option<(Slab, u64)> {
        if let Some((last, slab, capacity)) = self.last
            && last == region
            && slab.contains(offset)
        {
            return Some((slab, capacity));
        }
        let known = self.known.get(&region)?;
        let place = known.slabs.partition_point(|slab| slab.start <= offset).checked_sub(1)?;
        let slab = known.slabs[place];
        if !slab.contains(offset) {
            return None;
        }
        self.last = Some((region, slab, known.capacity));
        Some((slab, known.capacity))
    }

    /// Learns of a slab that lies in a region of `capacity` bytes. One that is known already is
    /// replaced.
    pub(super) fn insert(&mut self, region: Region, capacity: u64, slab: Slab) {
        self.last = None;
        let known = self.known.entry(region).or_default();
        // A region does not shrink, but a peer may say so: earlier slabs still lie in it.
        known.capacity = known.capacity.max(capacity);
        let place = known.slabs.partition_point(|known| known.start < slab.start);
        match known.slabs.get_mut(place) {
            Some(known) if known.start == slab.start => *known = slab,
            _ => known.slabs.insert(place, slab),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_cover_a_mapping_without_crossing_4_gib() {
        let address = (4 << 30) - (100 << 20) + 4096;
        let len = 300 << 20;
        let mut offset = 0;
        while offset < len {
            let slab = slab_of(address, len, offset);
            assert_eq!(slab.start, offset, "no gap, no overlap");
            assert_eq!(slab_of(address, len, slab.end - 1), slab, "one slab for all its bytes");
            assert_eq!((address + slab.start) >> 32, (address + slab.end - 1) >> 32);
            assert!(slab.end > slab.start && slab.end - slab.start <= SLAB_LEN);
            offset = slab.end;
        }
        assert_eq!(offset, len);
    }

    #[test]
    fn what_a_peer_told_is_found_by_any_of_its_bytes() {
        let mut slabs = PeerSlabs::default();
        let slab = |start| Slab { start, len: 100, address: 5000 + start, key: 1 };
        for start in [300, 0, 100] {
            slabs.insert(Region(7), 400, slab(start));
        }
        for (offset, start) in [(0, 0), (99, 0), (100, 100), (399, 300), (1, 0)] {
            let (found, capacity) = slabs.find(Region(7), offset).unwrap();
            assert_eq!((found, capacity), (slab(start), 400));
            assert_eq!(found.address_of(offset), 5000 + offset);
            assert_eq!(found.rest(offset), start + 100 - offset);
        }
        assert_eq!(slabs.find(Region(7), 200), None, "a gap");
        assert_eq!(slabs.find(Region(7), 400), None, "past the end");
        assert_eq!(slabs.find(Region(8), 0), None, "another region");
    }

    #[test]
    fn a_slab_that_was_registered_anew_replaces_the_old_one() {
        let mut slabs = PeerSlabs::default();
        let slab = Slab { start: 0, len: 100, address: 1, key: 1 };
        slabs.insert(Region(1), 100, slab);
        assert_eq!(slabs.find(Region(1), 5), Some((slab, 100)));
        slabs.insert(Region(1), 100, Slab { key: 2, ..slab });
        assert_eq!(slabs.find(Region(1), 5), Some((Slab { key: 2, ..slab }, 100)));
    }

    #[test]
    fn a_region_that_is_said_to_shrink_still_holds_its_slabs() {
        let mut slabs = PeerSlabs::default();
        let slab = |start| Slab { start, len: 100, address: 5000, key: 1 };
        slabs.insert(Region(1), 400, slab(300));
        slabs.insert(Region(1), 100, slab(0));
        let (found, capacity) = slabs.find(Region(1), 350).unwrap();
        assert_eq!((found, capacity), (slab(300), 400));
    }
}
