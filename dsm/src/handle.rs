//! What names a vector: its length, where its parts are, and how it is told to others.

use std::{
    any::type_name,
    marker::PhantomData,
    ops::{Bound, Range, RangeBounds},
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use pangea_rdma::NodeId;

use crate::{
    Error, GlobalPtr, Part, Placement, Portable, Result, allocation::Allocation, cluster::Member,
    wire::HandleWire,
};

/// A vector's place; what may be done there is for `GlobalVec` and `FrozenVec` to say.
#[derive(Debug)]
pub(crate) struct Handle<T> {
    // Where all elements are, if they are on one node.
    first: Option<NonNull<T>>,
    len: usize,
    // While it is zero, no node was ever lost.
    losses: Arc<AtomicU64>,
    allocation: Arc<Allocation>,
    // The elements are in the heaps; they are `Portable`, and so `Send` and `Sync`.
    _type: PhantomData<fn() -> T>,
}

// SAFETY: a handle is an address and a count; what is at the address is accessed by `GlobalVec`
// (atomics and copies by foreign code) and `FrozenVec` (immutable), both with `T: Portable`, which
// is `Send + Sync`.
unsafe impl<T: Portable> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T: Portable> Sync for Handle<T> {}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Self {
            first: self.first,
            len: self.len,
            losses: self.losses.clone(),
            allocation: self.allocation.clone(),
            _type: PhantomData,
        }
    }
}

impl<T: Portable> Handle<T> {
    /// Takes memory for `len` elements.
    pub(crate) fn allocate(member: &Arc<Member>, len: usize, placement: Placement) -> Result<Self> {
        Self::new(Allocation::new::<T>(member, len, placement)?)
    }

    /// A handle of `allocation`, whose parts are checked to lie inside their heaps, and aligned.
    fn new(allocation: Allocation) -> Result<Self> {
        const { assert!(size_of::<T>() > 0, "elements have a size") };
        let shared = &allocation.member.shared;
        let (mut first, mut len) = (None, 0);
        for part in &allocation.parts {
            let bytes = part.elements.len().checked_mul(size_of::<T>());
            let bytes =
                bytes.ok_or(Error::TooLarge { len: part.elements.len(), size: size_of::<T>() })?;
            let place = shared.space.address(part.home, part.offset, bytes as u64)?.cast::<T>();
            if !place.is_aligned() || part.elements.start != len {
                let reason = format!("a part at {:#x} of {} is misplaced", part.offset, part.home);
                return Err(Error::Protocol { reason });
            }
            first = (allocation.parts.len() == 1).then_some(place);
            len = part.elements.end;
        }
        let losses = shared.losses.clone();
        Ok(Self { first, len, losses, allocation: Arc::new(allocation), _type: PhantomData })
    }

    /// Takes in what a peer has published under `name`.
    pub(crate) fn from_wire(
        member: &Arc<Member>,
        name: &str,
        is_frozen: bool,
        wire: HandleWire,
    ) -> Result<Self> {
        let wanted = describe(is_frozen, type_name::<T>());
        let layout = (size_of::<T>() as u64, align_of::<T>() as u64);
        let has_layout = (wire.size, wire.align) == layout;
        if wire.is_frozen != is_frozen || wire.type_name != type_name::<T>() || !has_layout {
            let found = describe(wire.is_frozen, &wire.type_name);
            return Err(Error::TypeMismatch { name: name.to_owned(), wanted, found });
        }
        let mut parts = Vec::new();
        let mut start = 0_usize;
        for (home, offset, len) in wire.parts {
            let end = usize::try_from(len).ok().and_then(|len| start.checked_add(len));
            let end = end.ok_or(Error::TooLarge { len: usize::MAX, size: size_of::<T>() })?;
            parts.push(Part { home: NodeId::new(home), offset, elements: start..end });
            start = end;
        }
        Self::new(Allocation::of_peer(member, parts.into()))
    }

    pub(crate) fn to_wire(&self, is_frozen: bool) -> HandleWire {
        let part = |part: &Part| (part.home.number(), part.offset, part.elements.len() as u64);
        HandleWire {
            is_frozen,
            type_name: type_name::<T>().to_owned(),
            size: size_of::<T>() as u64,
            align: align_of::<T>() as u64,
            parts: self.allocation.parts.iter().map(part).collect(),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.allocation.parts
    }

    pub(crate) fn allocation(&self) -> &Allocation {
        &self.allocation
    }

    /// The place of an element, if it is there and its home is.
    #[inline]
    pub(crate) fn element(&self, index: usize) -> Result<NonNull<T>> {
        if index >= self.len {
            return Err(self.out_of_bounds(index, index.saturating_add(1)));
        }
        // Relaxed: it is only a hint to look closer.
        if let (Some(first), 0) = (self.first, self.losses.load(Ordering::Relaxed)) {
            // SAFETY: `index` is one of `len` elements that follow each other from `first` on, all
            // inside a window (checked by `new`).
            return Ok(unsafe { first.add(index) });
        }
        Ok(self.run(index..index + 1)?.0)
    }

    /// The place of elements that follow each other, and how many of `range` do; all of them, where
    /// they live on one node.
    pub(crate) fn run(&self, range: Range<usize>) -> Result<(NonNull<T>, usize)> {
        if range.start > range.end || range.end > self.len {
            return Err(self.out_of_bounds(range.start, range.end));
        }
        if range.is_empty() {
            return Ok((NonNull::dangling(), 0));
        }
        let parts = &self.allocation.parts;
        let part = &parts[parts.partition_point(|part| part.elements.end <= range.start)];
        let shared = &self.allocation.member.shared;
        shared.check_present(part.home)?;
        let skipped = (range.start - part.elements.start) as u64 * size_of::<T>() as u64;
        let count = range.len().min(part.elements.end - range.start);
        let bytes = (count * size_of::<T>()) as u64;
        let place = shared.space.address(part.home, part.offset + skipped, bytes)?;
        Ok((place.cast(), count))
    }

    /// Backs the elements by large pages, where there are any.
    pub(crate) fn use_large_pages(&self) -> Result {
        let shared = &self.allocation.member.shared;
        for part in self.allocation.parts.iter().filter(|part| !part.elements.is_empty()) {
            shared.check_present(part.home)?;
            let bytes = (part.elements.len() * size_of::<T>()) as u64;
            shared.space.window(part.home).coalesce(part.offset, bytes)?;
        }
        Ok(())
    }

    /// Where an element lives, as a pointer that may be copied to any node.
    pub(crate) fn pointer(&self, index: usize) -> Result<GlobalPtr<T>> {
        if index >= self.len {
            return Err(self.out_of_bounds(index, index.saturating_add(1)));
        }
        let parts = &self.allocation.parts;
        let part = &parts[parts.partition_point(|part| part.elements.end <= index)];
        let skipped = (index - part.elements.start) as u64 * size_of::<T>() as u64;
        GlobalPtr::new(part.home, part.offset + skipped)
    }

    /// The elements that `range` names, if they are there.
    pub(crate) fn resolve(&self, range: impl RangeBounds<usize>) -> Result<Range<usize>> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len,
        };
        if start > end || end > self.len {
            return Err(self.out_of_bounds(start, end));
        }
        Ok(start..end)
    }

    #[cold]
    fn out_of_bounds(&self, start: usize, end: usize) -> Error {
        Error::OutOfBounds { start, end, len: self.len }
    }
}

fn describe(is_frozen: bool, type_name: &str) -> String {
    format!("a {} of {type_name}", if is_frozen { "FrozenVec" } else { "GlobalVec" })
}

/// Handles that can be published: [`GlobalVec`](crate::GlobalVec) and
/// [`FrozenVec`](crate::FrozenVec).
pub trait Publish: Sized + sealed::Wire {}

pub(crate) mod sealed {
    use std::sync::Arc;

    use crate::{Result, allocation::Allocation, cluster::Member, wire::HandleWire};

    /// How a handle travels; for this crate only: every method has a type that others cannot name.
    #[expect(unnameable_types, reason = "a sealed trait is not to be named")]
    pub trait Wire: Sized {
        /// The memory that the handle names.
        #[expect(private_interfaces, reason = "a sealed trait is not to be called")]
        fn allocation(&self) -> &Allocation;
        /// The handle, for the wire.
        #[expect(private_interfaces, reason = "a sealed trait is not to be called")]
        fn to_wire(&self) -> HandleWire;
        /// The handle that a peer has published under `name`.
        #[expect(private_interfaces, reason = "a sealed trait is not to be called")]
        fn from_wire(member: &Arc<Member>, name: &str, wire: HandleWire) -> Result<Self>;
    }
}
