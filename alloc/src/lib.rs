//! Dividing a heap: sizes and offsets, no nodes, no wire.
//!
//! A [`Heap`] hands out byte offsets below a capacity and takes them back. It never sees the memory
//! behind those offsets: everything it knows lives in ordinary process memory, so a stray write
//! into the heap, by this process or by a peer, can damage data but not the allocator. The same
//! division serves memory that is mapped, sparse, registered with an adapter, or not there yet.
//!
//! ```
//! use pangea_alloc::{Heap, Layout};
//!
//! let heap = Heap::new(1 << 30, 0)?;
//! let counter = heap.allocate(Layout::new(8, 8)?)?;
//! let weights = heap.allocate(Layout::new(100 << 20, 2 << 20)?)?;
//! assert_eq!(weights % (2 << 20), 0);
//!
//! heap.free(counter)?;
//! assert!(heap.free(counter).is_err(), "a second free is an error");
//! # Ok::<(), pangea_alloc::Error>(())
//! ```
//!
//! # Spans
//!
//! The heap is counted in blocks of [`BLOCK_BYTES`], and a *span* is a run of them. A span is cut
//! from the shortest free run that holds it, the lowest where several are as short, and joins its
//! free neighbours when it comes back. Free runs are kept sorted by place and by length, so both
//! take time logarithmic in their number; an alignment above a block looks at a few runs more, and
//! at all that might do before it gives up. Requests above 32 KiB get a span of their own: at most
//! one block is lost to rounding.
//!
//! # Size classes and slabs
//!
//! A smaller request is rounded up to one of 80 *size classes*: multiples of 8 bytes up to 64, and
//! from there eight to each doubling, so that rounding adds at most an eighth (below 64 bytes: at
//! most 7 bytes). A *slab* is a span cut into equal *slots* of one class; slots start at multiples
//! of their size from a block's start, so a slot is aligned to every power of two that divides its
//! size, and an alignment is had by rounding the size up to it. A slab's record is a bit for each
//! slot and the size that was asked for.
//!
//! Slots come from the lowest slab that has one free, which lets the others drain. A slab whose
//! last slot is freed gives its span back, except that each class keeps one against thrashing; the
//! kept ones are given back too before any request is refused.
//!
//! # Limits
//!
//! A heap holds up to [`MAX_CAPACITY`]. What the allocator itself needs grows with what is
//! allocated, not with the capacity: a sparse heap of a terabyte costs no more than a small one.
#![forbid(unsafe_code)]

mod division;
mod error;
mod heap;
mod layout;
mod shelf;
mod size_class;
mod slab;
mod span;
mod statistics;

pub use crate::error::{Error, Result};
pub use crate::heap::{Heap, MAX_CAPACITY};
pub use crate::layout::Layout;
pub use crate::span::BLOCK_BYTES;
pub use crate::statistics::{ClassStatistics, Statistics};
