//! What can go wrong, told apart by what the caller can do about it.

use std::fmt;

use crate::span::BLOCK_BYTES;

/// The result of dividing a heap.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a heap refused. Whatever was refused left the heap as it was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// No free span can hold the request now.
    OutOfMemory {
        /// The size asked for, in bytes.
        wanted: u64,
        /// The alignment asked for, in bytes.
        align: u64,
        /// The longest run of free bytes.
        largest_free: u64,
        /// The capacity of the heap, in bytes.
        capacity: u64,
    },
    /// No heap can be so large, whatever its capacity.
    TooLarge {
        /// The size asked for, in bytes.
        wanted: u128,
        /// The largest size there can be.
        limit: u64,
    },
    /// The alignment is not a power of two.
    BadAlignment {
        /// The alignment asked for.
        align: u64,
    },
    /// No live allocation starts here: it was freed before, or never made.
    NotAllocated {
        /// The offset that was to be freed.
        offset: u64,
    },
    /// More was to be reserved than the heap holds.
    ReservedTooLarge {
        /// The bytes to keep back.
        reserved: u64,
        /// The capacity of the heap, in bytes.
        capacity: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OutOfMemory { wanted, align, largest_free, capacity } => write!(
                f,
                "no room for {wanted} bytes aligned to {align}: the largest free span of this heap \
                 of {capacity} bytes is {largest_free} bytes; free something or raise its capacity"
            ),
            Self::TooLarge { wanted, limit } => {
                write!(f, "{wanted} bytes are more than any heap holds; ask for at most {limit}")
            }
            Self::BadAlignment { align } => {
                write!(f, "an alignment of {align} is not a power of two; use 1, 2, 4, 8, ...")
            }
            Self::NotAllocated { offset } => write!(
                f,
                "no live allocation starts at offset {offset:#x}; free each allocation once, by \
                 the offset it was given"
            ),
            Self::ReservedTooLarge { reserved, capacity } => write!(
                f,
                "cannot reserve {reserved} bytes of a heap of {capacity} bytes, in whole blocks of \
                 {BLOCK_BYTES}; reserve less or raise the capacity"
            ),
        }
    }
}

impl std::error::Error for Error {}
