//! Memory that an adapter may access, and how it goes wrong.

use std::{
    collections::HashMap,
    ffi::c_int,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU32, Ordering},
    },
};

use pangea_rdma::{
    page_size,
    verbs::sys::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, ibv_sge},
};

use crate::{
    adapter::{Claim, Resource},
    context::Context,
    errno::{Errno, Result},
};

/// Address bits that the provider uses of a work request; the others it takes from the region
/// (`apple-rdma.md` 1.2, `tbt_post_recv`).
const ADDRESS_BITS: u64 = (1 << 32) - 1;

/// A protection domain: memory and the queue pairs that may use it.
#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) context: Arc<Context>,
    // By key.
    regions: RwLock<HashMap<u32, Arc<Region>>>,
    // Keys given so far.
    keys: AtomicU32,
    _claim: Claim,
}

impl Domain {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Arc<Self>> {
        if !context.is_active() {
            // A port that is down gives null (1.4); with which number is not known.
            return Err(Errno(libc::ENETDOWN));
        }
        let claim = Claim::new(&context.adapter, Resource::Domain, Errno(libc::ENOMEM))?;
        let (context, regions, keys) = (context.clone(), RwLock::default(), AtomicU32::new(0));
        Ok(Arc::new(Self { context, regions, keys, _claim: claim }))
    }

    /// Registers memory.
    pub(crate) fn register(&self, address: u64, len: usize, access: c_int) -> Result<Arc<Region>> {
        let is_aligned = address.is_multiple_of(page_size() as u64);
        let is_range = len > 0 && address.checked_add(len as u64).is_some();
        let claims = &self.context.device.settings.claims;
        let is_refused = claims.remote_access && access & IBV_ACCESS_REMOTE_WRITE == 0;
        if !is_aligned || !is_range || is_refused {
            return Err(Errno(libc::EINVAL));
        }
        let claim = Claim::new(&self.context.adapter, Resource::Region, Errno(libc::ENOMEM))?;
        // Relaxed: only its being unique counts, and growing in this thread.
        let key = self.keys.fetch_add(1, Ordering::Relaxed) + 1;
        let is_live = RwLock::new(true);
        let region = Arc::new(Region { key, address, len, access, is_live, _claim: claim });
        self.write().insert(key, region.clone());
        Ok(region)
    }

    /// Ends a registration, once nobody reads or writes the memory any more.
    pub(crate) fn deregister(&self, region: &Region) {
        self.write().remove(&region.key);
        *region.is_live.write().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Whether memory is registered.
    pub(crate) fn has_regions(&self) -> bool {
        !self.regions.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Keys given so far: regions with a greater one come later.
    pub(crate) fn last_key(&self) -> u32 {
        // Relaxed: as in `register`.
        self.keys.load(Ordering::Relaxed)
    }

    /// Where a work request's memory is, as the provider understands it; `None` where it must not
    /// be used. A queue pair knows regions up to `last_key`.
    pub(crate) fn resolve(&self, sge: &ibv_sge, last_key: u32, is_written: bool) -> Option<Span> {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        let region = regions.get(&sge.lkey).filter(|region| region.key <= last_key)?;
        let is_allowed = !is_written || region.access & IBV_ACCESS_LOCAL_WRITE != 0;
        let len = sge.length as usize;
        if !is_allowed || !region.holds(sge.addr, len) {
            return None;
        }
        let address = region.address & !ADDRESS_BITS | sge.addr & ADDRESS_BITS;
        let is_astray = !region.holds(address, len);
        Some(Span { region: region.clone(), address, len, is_astray })
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<u32, Arc<Region>>> {
        self.regions.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A memory region.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) key: u32,
    address: u64,
    len: usize,
    access: c_int,
    // Held for reading while the memory is accessed.
    is_live: RwLock<bool>,
    _claim: Claim,
}

impl Region {
    fn holds(&self, address: u64, len: usize) -> bool {
        let offset = address.checked_sub(self.address).and_then(|offset| offset.try_into().ok());
        offset.and_then(|offset| self.len.checked_sub(offset)).is_some_and(|rest| len <= rest)
    }
}

/// A range of a region, of one work request.
#[derive(Debug)]
pub(crate) struct Span {
    region: Arc<Region>,
    address: u64,
    len: usize,
    // Outside of its region, for want of address bits.
    is_astray: bool,
}

impl Span {
    /// The registered memory, for as long as the guard lives; `None` once it is registered no more.
    pub(crate) fn lock(&self) -> Option<SpanGuard<'_>> {
        let guard = self.region.is_live.read().unwrap_or_else(PoisonError::into_inner);
        guard.then_some(())?;
        let address = (!self.is_astray).then_some(self.address as *mut u8);
        Some(SpanGuard { address, len: self.len, _guard: guard })
    }
}

/// Access to the memory of a span.
#[derive(Debug)]
pub(crate) struct SpanGuard<'a> {
    // `None` where the adapter would access memory that is not the program's.
    address: Option<*mut u8>,
    pub(crate) len: usize,
    _guard: RwLockReadGuard<'a, bool>,
}

/// What is read where nothing is.
const NOTHING: u8 = 0xdb;

impl SpanGuard<'_> {
    /// Copies `len` bytes at `offset` of the span to `target`.
    ///
    /// # Safety
    ///
    /// `target` has room for them.
    pub(crate) unsafe fn read(&self, offset: usize, target: *mut u8, len: usize) {
        assert!(offset + len <= self.len, "a frame is part of its span");
        match self.address {
            // SAFETY: the bytes are registered, which the program keeps valid for as long, and the
            // caller's target has room. A program that writes what it has posted sends nonsense, as
            // it does with hardware.
            Some(address) => unsafe { target.copy_from(address.wrapping_add(offset), len) },
            // SAFETY: as the caller says.
            None => unsafe { target.write_bytes(NOTHING, len) },
        }
    }

    /// Copies `len` bytes from `source` to `offset` of the span.
    ///
    /// # Safety
    ///
    /// `source` is that many bytes.
    pub(crate) unsafe fn write(&self, offset: usize, source: *const u8, len: usize) {
        assert!(offset + len <= self.len, "a frame is part of its span");
        let Some(address) = self.address else { return };
        // SAFETY: as in `read`, the other way.
        unsafe { address.wrapping_add(offset).copy_from(source, len) };
    }
}
