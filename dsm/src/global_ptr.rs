//! Where a value lives: an address and nothing more.

use std::{fmt, hash, marker::PhantomData};

use pangea_rdma::NodeId;

use crate::{Error, Layout, Portable, Result};

/// Bits of the offset; the rest is the home node's number.
const OFFSET_BITS: u32 = 48;

/// Where a `T` lives in the global address space.
///
/// An address: it owns nothing, may be copied to any node and into any heap, and says nothing of
/// whether a `T` is still there.
#[repr(transparent)]
pub struct GlobalPtr<T: ?Sized> {
    // Home node in the top 16 bits, byte offset in its heap in the other 48.
    bits: u64,
    // `fn() -> T`: covariant, and `Send + Sync` whatever `T` is, as this gives no access to a `T`.
    _type: PhantomData<fn() -> T>,
}

const _: () = assert!(size_of::<GlobalPtr<[u8; 3]>>() == 8, "a pointer is one word on the wire");

impl<T: ?Sized> GlobalPtr<T> {
    /// The place `offset` bytes into the heap of `home`.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] where the offset has more than 48 bits.
    pub fn new(home: NodeId, offset: u64) -> Result<Self> {
        if offset >> OFFSET_BITS != 0 {
            let len = usize::try_from(offset).unwrap_or(usize::MAX);
            return Err(Error::TooLarge { len, size: 1 });
        }
        let bits = u64::from(home.number()) << OFFSET_BITS | offset;
        Ok(Self { bits, _type: PhantomData })
    }

    /// The node whose heap holds the value.
    pub fn home(self) -> NodeId {
        NodeId::new(u16::try_from(self.bits >> OFFSET_BITS).expect("16 bits are left"))
    }

    /// Bytes from the start of that heap.
    pub fn offset(self) -> u64 {
        self.bits & ((1 << OFFSET_BITS) - 1)
    }
}

// By hand: a derive would ask of `T` what the pointer does not need.
impl<T: ?Sized> Clone for GlobalPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for GlobalPtr<T> {}

impl<T: ?Sized> PartialEq for GlobalPtr<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}

impl<T: ?Sized> Eq for GlobalPtr<T> {}

impl<T: ?Sized> hash::Hash for GlobalPtr<T> {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.bits.hash(state);
    }
}

impl<T: ?Sized> fmt::Debug for GlobalPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{:#x}", self.home(), self.offset())
    }
}

// SAFETY: a `u64` and nothing else; every bit pattern is a place, if of nothing.
unsafe impl<T: ?Sized + 'static> Portable for GlobalPtr<T> {
    // Not of what is there: that may hold such a pointer itself.
    const LAYOUT: Layout = Layout::of::<Self>("GlobalPtr");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_keeps_its_home_and_offset() {
        for (home, offset) in [(0, 0), (3, 0x40), (u16::MAX, (1 << 48) - 1)] {
            let pointer = GlobalPtr::<u8>::new(NodeId::new(home), offset).unwrap();
            assert_eq!((pointer.home(), pointer.offset()), (NodeId::new(home), offset));
        }
        assert_eq!(
            format!("{:?}", GlobalPtr::<u8>::new(NodeId::new(3), 64).unwrap()),
            "node 3+0x40"
        );
    }

    #[test]
    fn an_offset_of_more_than_48_bits_is_refused() {
        assert!(GlobalPtr::<u8>::new(NodeId::new(0), 1 << 48).is_err());
    }
}
