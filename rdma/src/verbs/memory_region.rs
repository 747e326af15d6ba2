//! Memory that a device may touch.

use std::{ops::Range, ptr::NonNull, sync::Arc};

use super::{
    device::{Context, Share},
    ledger::Resource,
    library::Library,
    protection_domain::ProtectionDomain,
    sys,
};
use crate::{Error, Mapping, Pin, Result};

/// No region may cross a multiple of this address: Thunderbolt's driver computes with 32 bits.
const WINDOW_LEN: u64 = 1 << 32;

/// Who may touch a region.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// This end only.
    Local,
    /// The peers may read and write it, and change its words.
    Remote,
}

/// Part of a mapping that a device may touch; its pages stay in memory.
#[derive(Debug)]
pub struct MemoryRegion {
    raw: NonNull<sys::ibv_mr>,
    // In this order: given back after the region is gone.
    _share: Share,
    _pin: Pin,
    domain: Arc<ProtectionDomain>,
}

// SAFETY: the functions of the interface may be called from any thread, on any object.
unsafe impl Send for MemoryRegion {}
// SAFETY: as above, by several threads at once.
unsafe impl Sync for MemoryRegion {}

impl MemoryRegion {
    /// Lets the device touch `range` of `memory`.
    pub fn new(
        domain: &Arc<ProtectionDomain>,
        memory: &Arc<Mapping>,
        range: Range<u64>,
        access: Access,
    ) -> Result<Self> {
        let len = range.end.saturating_sub(range.start);
        let start = memory.range(range.start, len)?;
        check_window(start.as_ptr().addr() as u64, len)?;
        let context = domain.port().context();
        let share = Share::take(context, Resource::MemoryRegion, 1)?;
        let pin = Pin::new(memory.clone(), range);
        let len = usize::try_from(len).expect("a length in a mapping is a usize");
        let register = context.library().functions.ibv_reg_mr;
        // SAFETY: the range is mapped (checked by `range`), and stays so while `pin` holds the
        // mapping; everybody reads and writes it by atomics and copies of foreign code.
        let raw = unsafe { register(domain.raw(), start.as_ptr().cast(), len, access.flags()) };
        let raw = NonNull::new(raw).ok_or_else(|| refusal(context, len))?;
        Ok(Self { raw, _share: share, _pin: pin, domain: domain.clone() })
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.record().addr.addr() as u64
    }

    /// Bytes in it.
    pub fn len(&self) -> u64 {
        self.record().length as u64
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Names it to this end's device.
    pub fn local_key(&self) -> u32 {
        self.record().lkey
    }

    /// Names it to the peers' devices.
    pub fn remote_key(&self) -> u32 {
        self.record().rkey
    }

    fn record(&self) -> &sys::ibv_mr {
        // SAFETY: the region lives as long as `self`, and the library does not change it.
        unsafe { self.raw.as_ref() }
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        let context = self.domain.port().context();
        // SAFETY: the region is registered, and is not used after this.
        unsafe { (context.library().functions.ibv_dereg_mr)(self.raw.as_ptr()) };
    }
}

impl Access {
    fn flags(self) -> i32 {
        match self {
            Self::Local => sys::IBV_ACCESS_LOCAL_WRITE,
            Self::Remote => {
                sys::IBV_ACCESS_LOCAL_WRITE
                    | sys::IBV_ACCESS_REMOTE_READ
                    | sys::IBV_ACCESS_REMOTE_WRITE
                    | sys::IBV_ACCESS_REMOTE_ATOMIC
            }
        }
    }
}

/// Why `len` bytes are not registered, from the error number that the call left.
#[cold]
fn refusal(context: &Context, len: usize) -> Error {
    let error = Library::refusal(context.name(), "registration of memory");
    let Error::Device { device, call, reason } = error else { return error };
    let reason = format!("{reason} ({len} bytes, where {} may be locked)", lockable());
    Error::Device { device, call, reason }
}

/// Bytes that this process may lock in memory.
fn lockable() -> String {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives during the call.
    let returned = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    match limit.rlim_cur {
        _ if returned != 0 => "an unknown number".to_owned(),
        libc::RLIM_INFINITY => "any number".to_owned(),
        bytes => bytes.to_string(),
    }
}

pub(super) fn check_window(address: u64, len: u64) -> Result {
    let last = len.checked_sub(1).and_then(|last| address.checked_add(last));
    if last.is_none_or(|last| address / WINDOW_LEN != last / WINDOW_LEN) {
        return Err(Error::Config {
            field: "memory region",
            reason: format!(
                "{len} bytes at {address:#x} are none, or cross a multiple of 4 GiB, where \
                 Thunderbolt's driver corrupts them: register parts of whole slabs"
            ),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_across_4_gib_is_refused() {
        check_window(0x1_ffff_0000, 0x1_0000).unwrap();
        let error = check_window(0x1_ffff_0000, 0x1_0001).unwrap_err();
        assert!(error.to_string().contains("4 GiB"), "{error}");
        check_window(0x2_0000_0000, 1 << 32).unwrap();
        check_window(0x2_0000_0000, (1 << 32) + 1).unwrap_err();
        check_window(u64::MAX, 2).unwrap_err();
    }
}
