//! A vector that every node can read and write, element by element or in bulk.

use std::{
    ops::RangeBounds,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use pangea_rdma::{Op, RemoteAddr, copy_in, copy_out};

use crate::{
    Error, FrozenVec, GlobalPtr, Part, Portable, Publish, Result, Word,
    allocation::Allocation,
    cluster::Member,
    element::{self, bytes_of, bytes_of_mut},
    handle::{Handle, Place, Run, sealed::Wire},
    wire::HandleWire,
};

/// A vector in the heap of one node, or some of it in everybody's.
///
/// Every access is checked, one-sided and may race with any other: an element whose type has 1, 2,
/// 4 or 8 bytes, and that alignment, is never torn, another may be. Dropped before it is
/// [published](crate::Cluster::publish), its memory is freed; afterwards it stays.
///
/// Its elements are never borrowed, as others may write them at any time:
///
/// ```compile_fail
/// # use pangea::{Cluster, Config, Placement};
/// # let cluster = Cluster::join(Config::from_env()?)?;
/// let vec = cluster.vec::<u64>(8, Placement::Here)?;
/// let first: &u64 = &vec[0];
/// # Ok::<(), pangea::Error>(())
/// ```
///
/// and only what means the same on every node can be an element:
///
/// ```compile_fail
/// # use pangea::{Cluster, Config, Placement};
/// # let cluster = Cluster::join(Config::from_env()?)?;
/// let vec = cluster.vec::<&'static str>(8, Placement::Here)?;
/// # Ok::<(), pangea::Error>(())
/// ```
#[derive(Debug)]
pub struct GlobalVec<T> {
    handle: Handle<T>,
}

impl<T: Portable> GlobalVec<T> {
    pub(crate) fn new(handle: Handle<T>) -> Self {
        Self { handle }
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.handle.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the elements live, in order.
    pub fn parts(&self) -> &[Part] {
        self.handle.parts()
    }

    /// Where an element lives.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`]; [`Error::PeerLost`] where [`slice_mut`](Self::slice_mut) has written
    /// what the home is to have, and it is gone.
    pub fn pointer(&self, index: usize) -> Result<GlobalPtr<T>> {
        self.handle.pointer(index)
    }

    /// Reads an element.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`], [`Error::PeerLost`].
    #[inline]
    pub fn get(&self, index: usize) -> Result<T> {
        match self.handle.element(index)? {
            // SAFETY: `element` returns a place inside a window, mapped as long as the handle
            // lives.
            Place::Near(place) => Ok(unsafe { element::load(place) }),
            Place::Far(source) => self.handle.shared().load_far(source),
        }
    }

    /// Writes an element.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`], [`Error::PeerLost`].
    #[inline]
    pub fn put(&self, index: usize, value: T) -> Result {
        match self.handle.element(index)? {
            Place::Near(place) => {
                // SAFETY: `element` returns a place inside a window, mapped as long as the handle
                // lives; no reference to an element exists (`slice_mut` borrows the vector
                // exclusively).
                unsafe { element::store(place, value) };
                Ok(())
            }
            Place::Far(target) => self.handle.shared().store_far(target, value),
        }
    }

    /// Reads the elements from `start` on into `target`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`], [`Error::PeerLost`]; some elements may have been read then.
    pub fn get_slice(&self, start: usize, target: &mut [T]) -> Result {
        let mut range = self.handle.resolve(start..start.saturating_add(target.len()))?;
        let mut target = target;
        while !range.is_empty() {
            let run = self.handle.run(range.clone())?;
            let (part, rest) = target.split_at_mut(run.len());
            match run.place()? {
                // SAFETY: `run` returns that many elements inside a window, mapped as long as the
                // handle lives; a local slice does not overlap them.
                Place::Near(place) => unsafe { copy_out(place.cast(), bytes_of_mut(part)) },
                Place::Far(source) => {
                    self.handle.shared().read_far(source, bytes_of_mut(part))?;
                }
            }
            (target, range.start) = (rest, range.start + run.len());
        }
        Ok(())
    }

    /// Writes `source` to the elements from `start` on.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`], [`Error::PeerLost`]; some elements may have been written then.
    pub fn put_slice(&self, start: usize, source: &[T]) -> Result {
        let mut range = self.handle.resolve(start..start.saturating_add(source.len()))?;
        let mut source = source;
        while !range.is_empty() {
            let run = self.handle.run(range.clone())?;
            let (part, rest) = source.split_at(run.len());
            match run.place()? {
                // SAFETY: `run` returns that many elements inside a window, mapped as long as the
                // handle lives; a local slice does not overlap them, and no reference to them
                // exists.
                Place::Near(place) => unsafe { copy_in(bytes_of(part), place.cast()) },
                Place::Far(target) => self.handle.shared().write_far(bytes_of(part), target)?,
            }
            (source, range.start) = (rest, range.start + run.len());
        }
        Ok(())
    }

    /// Borrows elements as a slice, to be filled in place, while nobody else knows of the vector.
    ///
    /// What is written to a vector of another host is brought to its home by the next use of the
    /// vector: any access, [`freeze`](Self::freeze), [`pointer`](Self::pointer), or when it is
    /// [published](crate::Cluster::publish). A pointer that was taken before does not do that.
    ///
    /// # Errors
    ///
    /// [`Error::Published`] where others may know of it, [`Error::NotContiguous`] where the
    /// elements live on several nodes, [`Error::OutOfBounds`], [`Error::PeerLost`].
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<&mut [T]> {
        if self.handle.allocation().is_published() {
            return Err(Error::Published);
        }
        let place = contiguous(&self.handle, range)?.writable()?;
        // SAFETY: the elements are inside a window, mapped as long as the handle lives, aligned,
        // and valid whatever their bytes (`Portable`). Nobody else accesses them while `self` is
        // borrowed: the allocation is this handle's alone, as it was never published and
        // `GlobalVec` is not `Clone`.
        Ok(unsafe { &mut *place.as_ptr() })
    }

    /// Asks the system to back the vector by large pages, where it can: faster to fill and to
    /// stream. All of its memory is taken at once. A hint, for a vector that is about to be filled.
    ///
    /// # Errors
    ///
    /// [`Error::PeerLost`].
    pub fn use_large_pages(&self) -> Result {
        self.handle.use_large_pages()
    }

    /// Makes the vector immutable: from now on its elements are slices to every node.
    ///
    /// # Errors
    ///
    /// [`Error::Published`] where others may have handles that write: freeze first, then publish,
    /// or see [`freeze_published`](Self::freeze_published).
    pub fn freeze(self) -> Result<FrozenVec<T>> {
        if self.handle.allocation().is_published() {
            return Err(Error::Published);
        }
        self.handle.allocation().bring_home()?;
        Ok(FrozenVec::new(self.handle))
    }

    /// Makes the vector immutable, although others have handles of it.
    ///
    /// # Safety
    ///
    /// No node writes any element from now on, through whatever handle; and all that was written
    /// before is ordered before this call, as it is by a barrier.
    pub unsafe fn freeze_published(self) -> FrozenVec<T> {
        FrozenVec::new(self.handle)
    }
}

impl<T: Word> GlobalVec<T> {
    /// Adds to an element, wrapping around, and returns the value before. Sequentially consistent.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`], [`Error::PeerLost`].
    #[inline]
    pub fn fetch_add(&self, index: usize, addend: T) -> Result<T> {
        let addend = addend.to_word();
        let before = match self.word(index)? {
            // SeqCst: atomics of all words have one order.
            Where::Near(word) => word.fetch_add(addend, Ordering::SeqCst),
            Where::Far(target) => {
                self.handle.shared().atomic_far(Op::FetchAdd { target, addend })?
            }
        };
        Ok(T::from_word(before))
    }

    /// Replaces an element and returns the value before. Sequentially consistent.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`], [`Error::PeerLost`].
    #[inline]
    pub fn swap(&self, index: usize, value: T) -> Result<T> {
        let value = value.to_word();
        let before = match self.word(index)? {
            // SeqCst: atomics of all words have one order.
            Where::Near(word) => word.swap(value, Ordering::SeqCst),
            Where::Far(target) => self.handle.shared().atomic_far(Op::Swap { target, value })?,
        };
        Ok(T::from_word(before))
    }

    /// Replaces an element by `desired` if it is `expected`, and returns the value before, which
    /// tells whether it was. Sequentially consistent.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfBounds`], [`Error::PeerLost`].
    #[inline]
    pub fn compare_exchange(&self, index: usize, expected: T, desired: T) -> Result<T> {
        let (expected, desired) = (expected.to_word(), desired.to_word());
        let before = match self.word(index)? {
            Where::Near(word) => {
                // SeqCst: atomics of all words have one order.
                let order = Ordering::SeqCst;
                let swapped = word.compare_exchange(expected, desired, order, order);
                swapped.unwrap_or_else(|now| now)
            }
            Where::Far(target) => {
                self.handle.shared().atomic_far(Op::CompareSwap { target, expected, desired })?
            }
        };
        Ok(T::from_word(before))
    }

    #[inline]
    fn word(&self, index: usize) -> Result<Where<'_>> {
        let place = match self.handle.element(index)? {
            Place::Near(place) => place.cast::<AtomicU64>(),
            Place::Far(target) => return Ok(Where::Far(target)),
        };
        // SAFETY: `element` returns a place inside a window, mapped as long as the handle lives,
        // with the size and alignment of `u64` (`Word`); no reference to an element exists
        // (`slice_mut` borrows the vector exclusively), and others access it atomically or by
        // foreign code.
        Ok(Where::Near(unsafe { place.as_ref() }))
    }
}

/// Where a word is.
enum Where<'a> {
    Near(&'a AtomicU64),
    Far(RemoteAddr),
}

/// Elements that all live on one node.
pub(crate) fn contiguous<T: Portable>(
    handle: &Handle<T>,
    range: impl RangeBounds<usize>,
) -> Result<Run<'_, T>> {
    let range = handle.resolve(range)?;
    let run = handle.run(range.clone())?;
    if run.len() < range.len() {
        let (start, part_end) = (range.start, range.start + run.len());
        return Err(Error::NotContiguous { start, part_end });
    }
    Ok(run)
}

impl<T: Portable> Publish for GlobalVec<T> {}

impl<T: Portable> Wire for GlobalVec<T> {
    #[expect(private_interfaces, reason = "a sealed trait is not to be called")]
    fn allocation(&self) -> &Allocation {
        self.handle.allocation()
    }

    #[expect(private_interfaces, reason = "a sealed trait is not to be called")]
    fn to_wire(&self) -> HandleWire {
        self.handle.to_wire(false)
    }

    #[expect(private_interfaces, reason = "a sealed trait is not to be called")]
    fn from_wire(member: &Arc<Member>, name: &str, wire: HandleWire) -> Result<Self> {
        Ok(Self::new(Handle::from_wire(member, name, false, wire)?))
    }
}
