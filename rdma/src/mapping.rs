//! Memory that stays put, the only thing that can be registered.
//!
//! A [`SharedObject`] is memory without an address or a name: it lives as long as somebody holds
//! its descriptor or maps it, and vanishes with the last of them, however they end. A [`Mapping`]
//! is an object at an address. A [`Reservation`] keeps a range of addresses free for mappings to
//! come.

#[cfg_attr(target_os = "linux", path = "mapping/linux.rs")]
#[cfg_attr(target_os = "macos", path = "mapping/macos.rs")]
mod os;

use std::{
    fs::File,
    hint::black_box,
    ops::Range,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    ptr::NonNull,
    // std's: words of memory that is mapped are no part of a model.
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
};

use crate::{
    Error, Reservation, Result,
    copy::{copy_in, copy_out},
};

/// Bytes of a page of memory, as the operating system maps it.
pub fn page_size() -> usize {
    // SAFETY: `sysconf` reads a constant of the system; it touches no memory of ours.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).expect("the system has a page size")
}

/// Memory without an address or a name, which processes share by its descriptor.
#[derive(Debug)]
pub struct SharedObject {
    descriptor: OwnedFd,
    len: usize,
}

impl SharedObject {
    /// Makes an object of `len` bytes, all zero. Its pages take memory when they are first written.
    pub fn new(len: usize) -> Result<Self> {
        let len = len.max(1).next_multiple_of(page_size());
        Ok(Self { descriptor: os::create(len)?, len })
    }

    /// Takes in an object of a peer, which says it is of `len` bytes.
    ///
    /// Memory past an object's end is a bus error to touch, so that the size is checked here, where
    /// the system allows it can never shrink afterwards.
    pub fn from_peer(descriptor: OwnedFd, len: u64) -> Result<Self> {
        let found = object_len(&descriptor)?;
        let page = page_size() as u64;
        let is_there = len > 0 && len <= found && len.is_multiple_of(page);
        let wanted = usize::try_from(len).ok().filter(|_| is_there);
        let Some(len) = wanted else {
            return Err(Error::protocol(format!(
                "a peer's memory object has {found} bytes, but {len}, in pages of {page}, were told"
            )));
        };
        os::check_sealed(&descriptor)?;
        Ok(Self { descriptor, len })
    }

    /// Bytes in the object, a multiple of the page size.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing in it; never so.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The descriptor, to pass to a peer.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Maps the object wherever there is room.
    pub fn map(self) -> Result<Mapping> {
        let reservation = Arc::new(Reservation::anywhere(self.len)?);
        reservation.map(0, self)
    }
}

/// A shared object at an address, for as long as its reservation.
///
/// Peers read and write the same bytes at any time, so that there is no `&[u8]` of it: words are
/// atomics, and everything else is copied in and out.
#[derive(Debug)]
pub struct Mapping {
    address: NonNull<u8>,
    object: SharedObject,
    // Parts whose pages devices use: those stay.
    pinned: Mutex<Vec<Range<u64>>>,
    // Held so that the pages stay mapped.
    _reservation: Arc<Reservation>,
}

// SAFETY: all access goes through atomics and through copies by foreign code (`copy_in`,
// `copy_out`), which several threads may make at once, as several processes do.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The mapping of `object` that lies in `reservation`.
    ///
    /// # Safety
    ///
    /// All of `object` is mapped at `address`, readable and writable, for as long as `reservation`.
    pub(crate) unsafe fn at(
        address: NonNull<u8>,
        object: SharedObject,
        reservation: Arc<Reservation>,
    ) -> Self {
        Self { address, object, pinned: Mutex::default(), _reservation: reservation }
    }

    /// Makes `len` bytes of shared memory, all zero, and maps them wherever there is room.
    pub fn new(len: usize) -> Result<Self> {
        SharedObject::new(len)?.map()
    }

    /// Where it begins.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.address
    }

    /// Bytes mapped.
    pub fn len(&self) -> usize {
        self.object.len
    }

    /// Whether there is nothing in it; never so.
    pub fn is_empty(&self) -> bool {
        self.object.len == 0
    }

    /// The memory that is mapped.
    pub fn object(&self) -> &SharedObject {
        &self.object
    }

    /// The address of `len` bytes at `offset`, if they are inside.
    pub fn range(&self, offset: u64, len: u64) -> Result<NonNull<u8>> {
        let capacity = self.object.len as u64;
        if offset.checked_add(len).is_none_or(|end| end > capacity) {
            return Err(Error::OutOfBounds { offset, len, capacity });
        }
        let offset = usize::try_from(offset).expect("an offset in a mapping is an address");
        // SAFETY: `offset` is at most the length of the mapping (checked above), which is one
        // allocation of that length.
        Ok(unsafe { self.address.add(offset) })
    }

    /// The 64-bit word at `offset`.
    pub fn word(&self, offset: u64) -> Result<&AtomicU64> {
        if !offset.is_multiple_of(8) {
            return Err(Error::Unaligned { offset, align: 8 });
        }
        let word = self.range(offset, 8)?.cast::<AtomicU64>();
        // SAFETY: the word is inside the mapping and aligned (checked above; a mapping begins with
        // a page), it lives as long as `self`, any bytes are a valid atomic, and others access it
        // by atomics of this size or copies of foreign code only.
        Ok(unsafe { word.as_ref() })
    }

    /// Copies the bytes at `offset` to `target`.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result {
        let source = self.range(offset, target.len() as u64)?;
        // SAFETY: `source` is `target.len()` bytes of this mapping (checked by `range`).
        unsafe { copy_out(source, target) };
        Ok(())
    }

    /// Copies `source` to `offset`.
    pub fn write(&self, offset: u64, source: &[u8]) -> Result {
        let target = self.range(offset, source.len() as u64)?;
        // SAFETY: `target` is `source.len()` bytes of this mapping (checked by `range`).
        unsafe { copy_in(source, target) };
        Ok(())
    }

    /// Gives the memory of whole pages inside the range back to the system, unless a device uses
    /// some of them; they read as zero afterwards, as does the rest of the range.
    pub fn clear(&self, offset: u64, len: u64) -> Result {
        let page = page_size() as u64;
        let start = self.range(offset, len)?;
        // Held so that nothing is pinned meanwhile.
        let pinned = self.pinned();
        if pinned.iter().any(|pin| pin.start < offset + len && offset < pin.end) {
            self.zero(start, len);
            return Ok(());
        }
        let first = offset.next_multiple_of(page).min(offset + len);
        let last = ((offset + len) / page * page).max(first);
        if last > first {
            os::discard(&self.object.descriptor, self.range(first, last - first)?, first..last)?;
        }
        self.zero(start, first - offset);
        self.zero(self.range(last, offset + len - last)?, offset + len - last);
        Ok(())
    }

    fn pinned(&self) -> MutexGuard<'_, Vec<Range<u64>>> {
        // The list is whole between any two calls of its methods.
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn zero(&self, start: NonNull<u8>, len: u64) {
        let len = usize::try_from(len).expect("a length in a mapping is a usize");
        // Hidden from the compiler, so that the store is foreign code's, as in `copy_in`.
        let memset: unsafe extern "C" fn(_, _, _) -> *mut libc::c_void = black_box(libc::memset);
        // SAFETY: callers pass a range of this mapping; the bytes are written by foreign code.
        unsafe { memset(start.as_ptr().cast(), 0, len) };
    }

    /// Asks the system to back the range, and what shares its large pages, by large pages where it
    /// can. Before the range is first written that makes it faster to fill; afterwards it costs a
    /// copy.
    pub fn coalesce(&self, offset: u64, len: u64) -> Result {
        self.range(offset, len)?;
        os::coalesce(self, offset..offset + len);
        Ok(())
    }
}

/// Keeps the pages of a part of a mapping, which a device is to use by their physical addresses:
/// pages that were given back and taken anew would be others.
#[derive(Debug)]
pub(crate) struct Pin {
    mapping: Arc<Mapping>,
    range: Range<u64>,
}

impl Pin {
    pub(crate) fn new(mapping: Arc<Mapping>, range: Range<u64>) -> Self {
        mapping.pinned().push(range.clone());
        Self { mapping, range }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pinned = self.mapping.pinned();
        let place = pinned.iter().position(|range| *range == self.range);
        pinned.swap_remove(place.expect("a pin is in the list until it is dropped"));
    }
}

/// Gives a new object its size, the only one it will have.
fn set_len(descriptor: &OwnedFd, len: usize) -> Result {
    let size = libc::off_t::try_from(len).map_err(|_| Error::Config {
        field: "heap",
        reason: format!("{len} bytes are more than a memory object can have"),
    })?;
    // SAFETY: the descriptor is open; no memory is touched.
    if unsafe { libc::ftruncate(descriptor.as_raw_fd(), size) } != 0 {
        return Err(Error::last_os("ftruncate of shared memory"));
    }
    Ok(())
}

fn object_len(descriptor: &OwnedFd) -> Result<u64> {
    let file = File::from(descriptor.try_clone().map_err(Error::os("dup of a descriptor"))?);
    Ok(file.metadata().map_err(Error::os("fstat of shared memory"))?.len())
}

#[cfg(all(test, not(loom)))]
mod tests;
