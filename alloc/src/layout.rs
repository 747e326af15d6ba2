//! What is asked for: a size and an alignment.

use crate::error::{Error, Result};
use crate::heap::MAX_CAPACITY;

/// The size and alignment of a request, checked once here and nowhere else.
///
/// Not [`std::alloc::Layout`]: its sizes are those of this process, these are those of a heap,
/// which may be another node's. The alignment is that of the offset; the address is as well aligned
/// only where the heap's memory starts at a multiple of it.
///
/// A size of zero is allowed: it takes a slot of the smallest class that has the alignment, at an
/// offset that no other live allocation has, and is freed like any other.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Layout {
    size: u64,
    align: u64,
}

impl Layout {
    /// A request for `size` bytes at a multiple of `align`.
    ///
    /// # Errors
    ///
    /// [`Error::BadAlignment`] if `align` is not a power of two, [`Error::TooLarge`] if `size` is
    /// more than [`MAX_CAPACITY`].
    pub const fn new(size: u64, align: u64) -> Result<Self> {
        if !align.is_power_of_two() {
            return Err(Error::BadAlignment { align });
        }
        if size > MAX_CAPACITY {
            return Err(Error::TooLarge { wanted: size as u128, limit: MAX_CAPACITY });
        }
        Ok(Self { size, align })
    }

    /// A request for `len` values of type `T`, one after another.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if they are more than [`MAX_CAPACITY`] together; no product wraps.
    pub const fn array<T>(len: u64) -> Result<Self> {
        let wanted = size_of::<T>() as u128 * len as u128;
        if wanted > MAX_CAPACITY as u128 {
            return Err(Error::TooLarge { wanted, limit: MAX_CAPACITY });
        }
        Self::new(size_of::<T>() as u64 * len, align_of::<T>() as u64)
    }

    /// The size, in bytes.
    pub const fn size(self) -> u64 {
        self.size
    }

    /// The alignment, in bytes: a power of two.
    pub const fn align(self) -> u64 {
        self.align
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alignment_is_a_power_of_two() {
        for align in [0, 3, 24, u64::MAX] {
            assert_eq!(Layout::new(8, align), Err(Error::BadAlignment { align }));
        }
        for shift in 0..64 {
            assert!(Layout::new(8, 1 << shift).is_ok());
        }
    }

    #[test]
    fn a_size_is_at_most_the_largest_heap() {
        assert!(Layout::new(MAX_CAPACITY, 1).is_ok());
        let wanted = u128::from(MAX_CAPACITY + 1);
        let refused = Layout::new(MAX_CAPACITY + 1, 1);
        assert_eq!(refused, Err(Error::TooLarge { wanted, limit: MAX_CAPACITY }));
    }

    #[test]
    fn an_array_is_as_large_as_its_elements() -> Result<()> {
        let layout = Layout::array::<[u32; 3]>(7)?;
        assert_eq!((layout.size(), layout.align()), (84, 4));
        assert_eq!(Layout::array::<()>(u64::MAX)?.size(), 0);
        Ok(())
    }
}
