//! Memory of this end's own, that its device may touch: where messages come from and arrive.

use std::{ptr::NonNull, slice, sync::Arc};

use super::{
    memory_region::{Access, MemoryRegion, check_window},
    protection_domain::ProtectionDomain,
    sys,
};
use crate::{Mapping, Result, page_size};

/// Registered memory that no peer can name.
#[derive(Debug)]
pub(super) struct Cells {
    region: MemoryRegion,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is shared with nobody but the device; who may touch which part of it, and
// when, is the condition on every access.
unsafe impl Send for Cells {}
// SAFETY: as above.
unsafe impl Sync for Cells {}

impl Cells {
    /// Memory of `len` bytes.
    pub(super) fn new(domain: &Arc<ProtectionDomain>, len: usize) -> Result<Self> {
        let (mapping, offset) = private_memory(len)?;
        let start = mapping.range(offset, len as u64)?;
        let range = offset..offset + len as u64;
        let region = MemoryRegion::new(domain, &mapping, range, Access::Local)?;
        Ok(Self { region, start, len })
    }

    /// Names `len` bytes at `at` to the device.
    #[inline]
    pub(super) fn element(&self, at: usize, len: usize) -> sys::ibv_sge {
        assert!(at + len <= self.len, "inside the cells");
        let length = u32::try_from(len).expect("cells are small");
        sys::ibv_sge {
            addr: self.region.address() + at as u64,
            length,
            lkey: self.region.local_key(),
        }
    }

    /// The address of `len` bytes at `at`.
    #[inline]
    pub(super) fn address(&self, at: usize, len: usize) -> NonNull<u8> {
        assert!(at + len <= self.len, "inside the cells");
        // SAFETY: `at` is inside the memory (asserted), which is one allocation.
        unsafe { self.start.add(at) }
    }

    /// The `len` bytes at `at`.
    ///
    /// # Safety
    ///
    /// Neither the device nor another thread writes them while they are borrowed.
    #[inline]
    pub(super) unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        // SAFETY: the bytes are inside the mapping, which `region` holds; the caller vouches for
        // the rest.
        unsafe { slice::from_raw_parts(self.address(at, len).as_ptr(), len) }
    }

    /// The `len` bytes at `at`, to be written.
    ///
    /// # Safety
    ///
    /// Neither the device nor another thread touches them while they are borrowed.
    #[inline]
    pub(super) unsafe fn bytes_mut(&mut self, at: usize, len: usize) -> &mut [u8] {
        // SAFETY: as for `bytes`.
        unsafe { slice::from_raw_parts_mut(self.address(at, len).as_ptr(), len) }
    }
}

/// Memory of `len` bytes that crosses no multiple of 4 GiB, and where in its mapping it begins.
fn private_memory(len: usize) -> Result<(Arc<Mapping>, u64)> {
    let len = len.next_multiple_of(page_size());
    // Of twice the memory, which costs addresses only, one half crosses no multiple of 4 GiB.
    let mapping = Arc::new(Mapping::new(2 * len)?);
    let start = mapping.as_ptr().as_ptr().addr() as u64;
    let is_first_half = check_window(start, len as u64).is_ok();
    Ok((mapping, if is_first_half { 0 } else { len as u64 }))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn private_memory_lies_in_one_window() {
        let (mapping, offset) = private_memory(1 << 20).unwrap();
        let start = mapping.range(offset, 1 << 20).unwrap();
        check_window(start.as_ptr().addr() as u64, 1 << 20).unwrap();
    }
}
