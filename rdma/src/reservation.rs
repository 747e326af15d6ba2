//! Addresses that are kept free for mappings to come.

use std::{
    ops::Range,
    os::fd::AsRawFd,
    ptr::NonNull,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{Error, Mapping, Result, SharedObject, page_size};

/// A range of addresses that nothing else will be mapped to.
#[derive(Debug)]
pub struct Reservation {
    address: NonNull<u8>,
    len: usize,
    // Offsets of the parts that mappings have; they keep them.
    taken: Mutex<Vec<Range<usize>>>,
}

// SAFETY: a reservation is a number and the duty to unmap; it hands out no access to memory.
unsafe impl Send for Reservation {}
// SAFETY: as above; its methods only make system calls, and what they note is behind a lock.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves `len` bytes wherever there is room.
    pub fn anywhere(len: usize) -> Result<Self> {
        Self::reserve(std::ptr::null_mut(), len)
    }

    /// Reserves `len` bytes at `address`, or returns `None` where something is mapped there.
    ///
    /// Nothing is overwritten: the address is a hint, and a range elsewhere is given back.
    pub fn at(address: usize, len: usize) -> Result<Option<Self>> {
        let found = Self::reserve(std::ptr::without_provenance_mut(address), len)?;
        Ok((found.address.as_ptr().addr() == address).then_some(found))
    }

    fn reserve(hint: *mut libc::c_void, len: usize) -> Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE;
        // SAFETY: without MAP_FIXED the kernel picks a range that is free, so no memory that
        // anything uses is changed; PROT_NONE gives no access.
        let address = unsafe { libc::mmap(hint, len, libc::PROT_NONE, flags, -1, 0) };
        let address = mapped(address, "mmap of a reservation")?;
        Ok(Self { address, len, taken: Mutex::default() })
    }

    /// Where the range begins.
    pub fn address(&self) -> usize {
        self.address.as_ptr().addr()
    }

    /// Bytes reserved.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing in it; never so.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Maps `object`, readable and writable, `offset` bytes into the range.
    ///
    /// # Panics
    ///
    /// Where the object does not fit, another is there, or `offset` is no multiple of the page
    /// size.
    pub fn map(self: &Arc<Self>, offset: usize, object: SharedObject) -> Result<Mapping> {
        let end = offset.checked_add(object.len()).expect("the end of a mapping is an address");
        assert!(end <= self.len, "a mapping lies inside its reservation");
        assert_eq!(offset % page_size(), 0, "a mapping begins with a page");
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = taken.iter().all(|other| end <= other.start || other.end <= offset);
        assert!(is_free, "a mapping has its part of a reservation alone");
        let address = self.address.as_ptr().wrapping_add(offset);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        let descriptor = object.descriptor().as_raw_fd();
        // SAFETY: the range lies inside this reservation, and no mapping has a part of it (asserted
        // above, under the lock), so that MAP_FIXED replaces only pages that were never accessible.
        let at = unsafe { libc::mmap(address.cast(), object.len(), access, flags, descriptor, 0) };
        let address = mapped(at, "mmap of shared memory")?;
        taken.push(offset..end);
        // SAFETY: the object has just been mapped there, in a part of this reservation that is its
        // own.
        Ok(unsafe { Mapping::at(address, object, self.clone()) })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `reserve` and every mapping inside it holds an `Arc` of
        // this reservation, so that nobody has access to it any more.
        let result = unsafe { libc::munmap(self.address.as_ptr().cast(), self.len) };
        debug_assert_eq!(result, 0, "munmap of a reservation");
    }
}

fn mapped(address: *mut libc::c_void, call: &'static str) -> Result<NonNull<u8>> {
    if address == libc::MAP_FAILED {
        return Err(Error::last_os(call));
    }
    Ok(NonNull::new(address.cast()).expect("the kernel maps nothing at address zero"))
}
