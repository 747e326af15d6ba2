//! A group of queue pairs and the memory that they may touch.

use std::{ptr::NonNull, sync::Arc};

use super::{
    device::{Share, made},
    ledger::Resource,
    port::Port,
    sys,
};
use crate::Result;

/// Memory and queue pairs that belong together, on one port. One a device is enough.
#[derive(Debug)]
pub struct ProtectionDomain {
    raw: NonNull<sys::ibv_pd>,
    // Given back after the domain is gone.
    _share: Share,
    port: Port,
}

// SAFETY: the functions of the interface may be called from any thread, on any object.
unsafe impl Send for ProtectionDomain {}
// SAFETY: as above, by several threads at once.
unsafe impl Sync for ProtectionDomain {}

impl ProtectionDomain {
    /// A new one, on the device of `port`.
    pub fn new(port: &Port) -> Result<Arc<Self>> {
        let context = port.context();
        let share = Share::take(context, Resource::ProtectionDomain, 1)?;
        // SAFETY: the device is open.
        let raw = unsafe { (context.library().functions.ibv_alloc_pd)(context.raw()) };
        let raw = made(raw, context, "allocation of a protection domain")?;
        Ok(Arc::new(Self { raw, _share: share, port: port.clone() }))
    }

    /// Its port.
    pub fn port(&self) -> &Port {
        &self.port
    }

    pub(super) fn raw(&self) -> *mut sys::ibv_pd {
        self.raw.as_ptr()
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        let free = self.port.context().library().functions.ibv_dealloc_pd;
        // SAFETY: queue pairs and memory regions hold their domain, so that none is left.
        unsafe { free(self.raw.as_ptr()) };
    }
}
