//! Protection domains and memory regions.

use std::ffi::{c_int, c_void};

use pangea_rdma::verbs::sys::{ibv_context, ibv_mr, ibv_pd};

use super::{ContextHandle, DomainHandle, RegionHandle};
use crate::{errno::pointer, memory::Domain};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    // SAFETY: the contract.
    let handle = unsafe { ContextHandle::of(context) };
    let domain = Domain::new(&handle.inner);
    pointer(domain.map(|domain| DomainHandle::give(ibv_pd { context }, domain)))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_dealloc_pd(domain: *mut ibv_pd) -> c_int {
    // SAFETY: the contract.
    let handle = unsafe { DomainHandle::of(domain) };
    let is_free = handle.is_unused().is_ok() && !handle.inner.has_regions();
    if !is_free {
        return libc::EBUSY;
    }
    // SAFETY: the contract: it is used no more.
    drop(unsafe { DomainHandle::take(domain) });
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the contract.
    let handle = unsafe { DomainHandle::of(pd) };
    let region = handle.inner.register(addr as u64, length, access);
    pointer(region.map(|region| {
        let context = handle.abi.context;
        let lkey = region.key;
        // No remote key: there are no one-sided operations (`apple-rdma.md` 0).
        let abi = ibv_mr { context, pd, addr, length, handle: lkey, lkey, rkey: 0 };
        RegionHandle::give(abi, region)
    }))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_dereg_mr(region: *mut ibv_mr) -> c_int {
    // SAFETY: the contract.
    let handle = unsafe { RegionHandle::of(region) };
    // SAFETY: the contract: a domain outlives its regions.
    let domain = unsafe { DomainHandle::of(handle.abi.pd) };
    domain.inner.deregister(&handle.inner);
    // SAFETY: the contract: it is used no more.
    drop(unsafe { RegionHandle::take(region) });
    0
}
