//! The heap: one lock around its division.

use std::fmt;
use std::sync::{Mutex, MutexGuard};

use crate::division::Division;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::span::BLOCK_BYTES;
use crate::statistics::Statistics;

/// The largest capacity of a heap: 2^48 bytes, what the offset in a global pointer can name.
pub const MAX_CAPACITY: u64 = 1 << 48;

/// A range of offsets, from zero to a capacity, of which parts are handed out.
///
/// All methods take `&self` and may be called by any thread; what one thread allocates another may
/// free. Dropping the heap frees what is live.
pub struct Heap {
    // A panic while it is held means that an invariant is broken; it poisons the lock, so that no
    // later call hands out memory from a division that may be wrong.
    division: Mutex<Division>,
}

impl Heap {
    /// A heap of `capacity` bytes, of which the first `reserved` are never handed out.
    ///
    /// The capacity is rounded down and the reserved part up to whole blocks of [`BLOCK_BYTES`]. A
    /// heap of less than a block is a valid heap in which there is no room.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if `capacity` is more than [`MAX_CAPACITY`], [`Error::ReservedTooLarge`]
    /// if `reserved`, rounded, is more than `capacity`, rounded.
    pub fn new(capacity: u64, reserved: u64) -> Result<Self> {
        let capacity_blocks = whole_blocks(capacity)?;
        let reserved_blocks = reserved.div_ceil(BLOCK_BYTES);
        if reserved_blocks > capacity_blocks {
            return Err(Error::ReservedTooLarge { reserved, capacity });
        }
        Ok(Self { division: Mutex::new(Division::new(capacity_blocks, reserved_blocks)) })
    }

    /// Hands out the offset of `layout.size()` bytes that nothing else has, until they are freed.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if no free span holds them; the heap is as before.
    pub fn allocate(&self, layout: Layout) -> Result<u64> {
        self.lock().allocate(layout)
    }

    /// The size that was asked for by the allocation that starts at `offset`.
    ///
    /// # Errors
    ///
    /// [`Error::NotAllocated`] if no live allocation starts there.
    pub fn size(&self, offset: u64) -> Result<u64> {
        self.lock().size(offset)
    }

    /// Takes back the allocation that starts at `offset`.
    ///
    /// # Errors
    ///
    /// [`Error::NotAllocated`] if no live allocation starts there; the heap is as before.
    pub fn free(&self, offset: u64) -> Result<()> {
        self.lock().free(offset)
    }

    /// Raises the capacity to `capacity` bytes, rounded down to whole blocks; one that is not above
    /// the present capacity changes nothing.
    ///
    /// A heap whose memory is provided step by step grows by each step once the memory is there:
    /// then a shortage of memory is an [`Error::OutOfMemory`] here and not a fault at first touch.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if `capacity` is more than [`MAX_CAPACITY`].
    pub fn grow(&self, capacity: u64) -> Result<()> {
        let blocks = whole_blocks(capacity)?;
        self.lock().grow(blocks);
        Ok(())
    }

    /// How the heap is used now.
    pub fn statistics(&self) -> Statistics {
        self.lock().statistics()
    }

    fn lock(&self) -> MutexGuard<'_, Division> {
        self.division.lock().expect("no invariant of the heap is broken")
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Heap").field(&self.statistics()).finish()
    }
}

fn whole_blocks(capacity: u64) -> Result<u64> {
    if capacity > MAX_CAPACITY {
        return Err(Error::TooLarge { wanted: capacity.into(), limit: MAX_CAPACITY });
    }
    Ok(capacity / BLOCK_BYTES)
}
