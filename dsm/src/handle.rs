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

use pangea_rdma::{NodeId, RemoteAddr};

use crate::{
    Error, GlobalPtr, Part, Placement, Portable, Result, allocation::Allocation,
    cache::whole_pieces, cluster::Member, layout, progress::Shared, wire::HandleWire,
};

/// A vector's place; what may be done there is for `GlobalVec` and `FrozenVec` to say.
#[derive(Debug)]
pub(crate) struct Handle<T> {
    // Where all elements are, if they are on one node of this host.
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
            let is_near = !shared.space.is_far(part.home);
            first = (allocation.parts.len() == 1 && is_near).then_some(place);
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
        let found = describe(wire.is_frozen, &wire.type_name);
        // Which program a type is of does not matter.
        let is_named = layout::without_paths(&wire.type_name) == layout::name_of::<T>();
        if wire.is_frozen != is_frozen || !is_named {
            return Err(Error::TypeMismatch { name: name.to_owned(), wanted, found });
        }
        if wire.layout != T::LAYOUT.number() {
            return Err(Error::LayoutMismatch { name: name.to_owned(), wanted, found });
        }
        let mut parts = Vec::new();
        let mut start = 0_usize;
        for (home, offset, len) in wire.parts {
            let end = usize::try_from(len).ok().and_then(|len| start.checked_add(len));
            let end = end.ok_or(Error::TooLarge { len: usize::MAX, size: size_of::<T>() })?;
            parts.push(Part { home: NodeId::new(home), offset, elements: start..end });
            start = end;
        }
        Self::new(Allocation::of_peer::<T>(member, parts.into()))
    }

    pub(crate) fn to_wire(&self, is_frozen: bool) -> HandleWire {
        let part = |part: &Part| (part.home.number(), part.offset, part.elements.len() as u64);
        HandleWire {
            is_frozen,
            type_name: type_name::<T>().to_owned(),
            layout: T::LAYOUT.number(),
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

    /// Lets go of what was fetched, if no clone may have borrowed it.
    pub(crate) fn release(&mut self) {
        if let Some(allocation) = Arc::get_mut(&mut self.allocation) {
            allocation.release();
        }
    }

    /// The place of an element, if it is there and its home is.
    #[inline]
    pub(crate) fn element(&self, index: usize) -> Result<Place<T>> {
        if index >= self.len {
            return Err(self.out_of_bounds(index, index.saturating_add(1)));
        }
        // Relaxed: it is only a hint to look closer.
        if let (Some(first), 0) = (self.first, self.losses.load(Ordering::Relaxed)) {
            // SAFETY: `index` is one of `len` elements that follow each other from `first` on, all
            // inside a window (checked by `new`).
            return Ok(Place::Near(unsafe { first.add(index) }));
        }
        self.run(index..index + 1)?.place()
    }

    /// The first elements of `range` that follow each other; all of them, where they live on one
    /// node.
    pub(crate) fn run(&self, range: Range<usize>) -> Result<Run<'_, T>> {
        if range.start > range.end || range.end > self.len {
            return Err(self.out_of_bounds(range.start, range.end));
        }
        let parts = &self.allocation.parts;
        let index = parts.partition_point(|part| part.elements.end <= range.start);
        let shared = &self.allocation.member.shared;
        let part = parts.get(index).filter(|_| !range.is_empty());
        let Some(part) = part else {
            let nothing = Part { home: shared.node(), offset: 0, elements: 0..0 };
            return Ok(Run { handle: self, part: nothing, start: NonNull::dangling(), all: 0..0 });
        };
        shared.check_present(part.home)?;
        let skipped = (range.start - part.elements.start) as u64 * size_of::<T>() as u64;
        let end = range.end.min(part.elements.end);
        let (offset, elements) = (part.offset + skipped, range.start..end);
        let bytes = (elements.len() * size_of::<T>()) as u64;
        let start = shared.space.address(part.home, offset, bytes)?.cast();
        let all = part.offset..part.offset + (part.elements.len() * size_of::<T>()) as u64;
        Ok(Run { handle: self, part: Part { home: part.home, offset, elements }, start, all })
    }

    /// The member whose memory this is a part of.
    pub(crate) fn shared(&self) -> &Shared {
        &self.allocation.member.shared
    }

    /// Backs the elements by large pages, where there are any.
    pub(crate) fn use_large_pages(&self) -> Result {
        let shared = &self.allocation.member.shared;
        for part in self.allocation.parts.iter().filter(|part| !part.elements.is_empty()) {
            shared.check_present(part.home)?;
            if shared.space.is_far(part.home) {
                continue;
            }
            let bytes = (part.elements.len() * size_of::<T>()) as u64;
            shared.space.window(part.home).coalesce(part.offset, bytes)?;
        }
        Ok(())
    }

    /// Where an element lives, as a pointer that may be copied to any node. It leads to the home,
    /// and so what was written to its window by `slice_mut` is brought there first.
    pub(crate) fn pointer(&self, index: usize) -> Result<GlobalPtr<T>> {
        if index >= self.len {
            return Err(self.out_of_bounds(index, index.saturating_add(1)));
        }
        self.allocation.bring_home()?;
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

/// Where elements are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<T> {
    /// On this host: in a window.
    Near(NonNull<T>),
    /// On another.
    Far(RemoteAddr),
}

/// Elements that follow each other on one node.
#[derive(Debug)]
pub(crate) struct Run<'a, T> {
    handle: &'a Handle<T>,
    /// Which, and where.
    part: Part,
    // In the window of their home.
    start: NonNull<T>,
    // The bytes of the part of the vector that they are of.
    all: Range<u64>,
}

impl<T: Portable> Run<'_, T> {
    pub(crate) fn len(&self) -> usize {
        self.part.elements.len()
    }

    /// Where they are. What was written to their window by `slice_mut` is brought home first.
    pub(crate) fn place(&self) -> Result<Place<T>> {
        let shared = self.handle.shared();
        let Part { home, offset, .. } = self.part;
        if !shared.space.is_far(home) {
            return Ok(Place::Near(self.start));
        }
        self.handle.allocation.bring_home()?;
        Ok(Place::Far(RemoteAddr { node: home, region: shared.heap_region, offset }))
    }

    /// The elements in their window, where they are resident from now on and until the handle, and
    /// all its clones, are dropped or released: for elements that nobody
    /// writes.
    pub(crate) fn resident(&self) -> Result<NonNull<[T]>> {
        let Part { home, .. } = self.part;
        if self.len() > 0 && self.handle.shared().space.is_far(home) {
            self.handle.allocation.bring_home()?;
            self.handle.allocation.hold(home, self.pieces())?;
        }
        Ok(NonNull::slice_from_raw_parts(self.start, self.len()))
    }

    /// Starts to make them resident, where they are on another host.
    pub(crate) fn prefetch(&self) -> Result {
        let Part { home, .. } = self.part;
        if self.len() == 0 || !self.handle.shared().space.is_far(home) {
            return Ok(());
        }
        self.handle.allocation.bring_home()?;
        self.handle.allocation.fetch_ahead(home, self.pieces())
    }

    /// The elements in their window, to be written by who has the only handle.
    pub(crate) fn writable(&self) -> Result<NonNull<[T]>> {
        let Part { home, .. } = self.part;
        if self.len() > 0 && self.handle.shared().space.is_far(home) {
            self.handle.allocation.take_out(home, self.bytes())?;
        }
        Ok(NonNull::slice_from_raw_parts(self.start, self.len()))
    }

    /// The pieces that they are parts of, as the cache knows them.
    fn pieces(&self) -> Range<u64> {
        whole_pieces(&self.bytes(), &self.all)
    }

    /// Where they are in the heap of their home.
    fn bytes(&self) -> Range<u64> {
        let len = (self.len() * size_of::<T>()) as u64;
        self.part.offset..self.part.offset + len
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
