//! The devices of this host, and one of them opened.

use std::{
    ffi::c_int,
    ptr::{self, NonNull},
    slice,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    gid::Gid,
    ledger::{Ledger, Resource},
    library::{Library, text_of},
    sys, teardown,
};
use crate::{Error, Result};

/// A device of this host, not yet opened.
#[derive(Debug)]
pub struct Device {
    raw: NonNull<sys::ibv_device>,
    name: String,
    list: Arc<DeviceList>,
}

// SAFETY: the functions of the interface may be called from any thread, on any object.
unsafe impl Send for Device {}
// SAFETY: as above, by several threads at once.
unsafe impl Sync for Device {}

impl Device {
    /// Every device of this host, working or not.
    pub fn all(library: &Arc<Library>) -> Result<Vec<Self>> {
        let mut count: c_int = 0;
        // SAFETY: `count` lives during the call.
        let raw = unsafe { (library.functions.ibv_get_device_list)(&raw mut count) };
        let raw = NonNull::new(raw)
            .ok_or_else(|| Library::refusal(library.name(), "listing of devices"))?;
        let list = Arc::new(DeviceList { raw, library: library.clone() });
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: the library returned a list of `count` devices, which lives as long as `list`.
        let devices = unsafe { slice::from_raw_parts(raw.as_ptr(), count) };
        Ok(devices.iter().filter_map(|&device| Self::new(NonNull::new(device)?, &list)).collect())
    }

    fn new(raw: NonNull<sys::ibv_device>, list: &Arc<DeviceList>) -> Option<Self> {
        // SAFETY: `raw` is a device of `list`, which is alive.
        let name = unsafe { (list.library.functions.ibv_get_device_name)(raw.as_ptr()) };
        Some(Self { raw, name: text_of(name)?, list: list.clone() })
    }

    /// What the system calls it: `rdma_en3`, `mlx5_0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens it.
    pub fn open(&self) -> Result<Arc<Context>> {
        let library = &self.list.library;
        // SAFETY: the device is of a list that is alive.
        let raw = unsafe { (library.functions.ibv_open_device)(self.raw.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(|| Library::refusal(&self.name, "opening"))?;
        let opened = Opened { raw, library: library.clone() };
        teardown::prepare();
        Context::new(opened, self.name.clone()).map(Arc::new)
    }
}

/// What the library listed; its devices die with it.
#[derive(Debug)]
struct DeviceList {
    raw: NonNull<*mut sys::ibv_device>,
    library: Arc<Library>,
}

// SAFETY: the list is only kept to be freed, by whichever thread holds it last.
unsafe impl Send for DeviceList {}
// SAFETY: as above.
unsafe impl Sync for DeviceList {}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: the list is the library's, and no `Device` of it is left.
        unsafe { (self.library.functions.ibv_free_device_list)(self.raw.as_ptr()) };
    }
}

/// Whether a device's atomics are atomic to the processor too.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Atomicity {
    /// It has none.
    None,
    /// To each other only: words that it changes must not be changed by a processor.
    Device,
    /// To all.
    Global,
}

/// What a device says that it can do.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Its atomics.
    pub atomicity: Atomicity,
    /// Reads and atomics that a queue pair takes from its peer at a time.
    pub reads_served: u8,
    /// Reads and atomics that a queue pair may have in flight.
    pub reads_begun: u8,
    /// Work requests that a queue holds.
    pub queue_depth: u32,
}

/// An open device.
#[derive(Debug)]
pub struct Context {
    opened: Opened,
    name: String,
    limits: Limits,
    ports: u8,
    ledger: Mutex<Ledger>,
}

#[derive(Debug)]
struct Opened {
    raw: NonNull<sys::ibv_context>,
    library: Arc<Library>,
}

// SAFETY: the functions of the interface may be called from any thread, on any object.
unsafe impl Send for Opened {}
// SAFETY: as above, by several threads at once.
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: the context is open, and whatever was made of it held its owner, so is gone.
        unsafe { (self.library.functions.ibv_close_device)(self.raw.as_ptr()) };
    }
}

impl Context {
    fn new(opened: Opened, name: String) -> Result<Self> {
        // SAFETY: all zero is a valid value: it is numbers.
        let mut found: sys::ibv_device_attr = unsafe { std::mem::zeroed() };
        let query = opened.library.functions.ibv_query_device;
        // SAFETY: the device is open, and `found` lives during the call.
        let returned = unsafe { query(opened.raw.as_ptr(), &raw mut found) };
        Library::check(returned, &name, "query of the device")?;
        let ledger = Mutex::new(Ledger::new(
            positive(found.max_qp),
            positive(found.max_mr),
            positive(found.max_pd),
            u32::MAX,
        ));
        let limits = limits(&found);
        let context = Self { opened, name, limits, ports: found.phys_port_cnt, ledger };
        if (1..=context.ports).any(|port| context.is_thunderbolt(port)) {
            *context.ledger() = Ledger::thunderbolt();
        }
        Ok(context)
    }

    /// What the system calls the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the device says that it can do.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Its ports, counted from one.
    pub fn ports(&self) -> impl Iterator<Item = u8> + use<> {
        1..=self.ports
    }

    /// What is known of a port.
    pub fn port_attributes(&self, port: u8) -> Result<sys::ibv_port_attr> {
        // SAFETY: all zero is a valid value: it is numbers.
        let mut found: sys::ibv_port_attr = unsafe { std::mem::zeroed() };
        let query = self.library().functions.ibv_query_port;
        // SAFETY: the device is open, and `found` has room for what either system's library writes.
        let returned = unsafe { query(self.raw(), port, &raw mut found) };
        Library::check(returned, &self.name, "query of a port")?;
        Ok(found)
    }

    fn is_thunderbolt(&self, port: u8) -> bool {
        let found = self.port_attributes(port);
        found.is_ok_and(|port| port.link_layer == sys::IBV_LINK_LAYER_THUNDERBOLT)
    }

    /// The addresses of a port whose table has `len` entries; those that cannot be read are left
    /// out.
    pub(super) fn gids(&self, port: u8, len: c_int) -> Vec<Gid> {
        (0..positive(len)).filter_map(|index| self.gid(port, index)).collect()
    }

    fn gid(&self, port: u8, index: u32) -> Option<Gid> {
        if let Some(query) = self.library().functions.ibv_query_gid_ex {
            let mut entry = sys::ibv_gid_entry::default();
            let (len, port) = (size_of::<sys::ibv_gid_entry>(), u32::from(port));
            // SAFETY: the device is open, and `entry` is `len` bytes that live during the call.
            let returned = unsafe { query(self.raw(), port, index, &raw mut entry, 0, len) };
            return (returned == 0)
                .then(|| Gid::new(entry.gid.raw, index, Some(entry.gid_type)))?;
        }
        let mut gid = sys::ibv_gid::default();
        let query = self.library().functions.ibv_query_gid;
        let number = c_int::try_from(index).ok()?;
        // SAFETY: the device is open, and `gid` lives during the call.
        let returned = unsafe { query(self.raw(), port, number, &raw mut gid) };
        (returned == 0).then(|| Gid::new(gid.raw, index, None))?
    }

    /// A function of the device's driver.
    #[inline]
    pub(super) fn operation<T>(
        &self,
        choose: impl FnOnce(&sys::ibv_context_ops) -> Option<T>,
        call: &'static str,
    ) -> Result<T> {
        // SAFETY: the device is open, and its table is not changed after that.
        let operations = unsafe { &self.opened.raw.as_ref().ops };
        choose(operations).ok_or_else(|| self.lacks(call))
    }

    #[cold]
    fn lacks(&self, call: &'static str) -> Error {
        let reason = "the driver has no such function".to_owned();
        Error::Device { device: self.name.clone(), call, reason }
    }

    pub(super) fn raw(&self) -> *mut sys::ibv_context {
        self.opened.raw.as_ptr()
    }

    pub(super) fn library(&self) -> &Arc<Library> {
        &self.opened.library
    }

    /// What is left of the device's resources.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Every change of a ledger is complete in itself: one that panicked changed nothing.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A device's resource, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    context: Arc<Context>,
    resource: Resource,
    count: u32,
}

impl Share {
    pub(super) fn take(context: &Arc<Context>, resource: Resource, count: u32) -> Result<Self> {
        context.ledger().take(resource, count).map_err(|exhausted| Error::Device {
            device: context.name.clone(),
            call: "ledger",
            reason: exhausted.to_string(),
        })?;
        Ok(Self { context: context.clone(), resource, count })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.context.ledger().give_back(self.resource, self.count);
    }
}

fn limits(found: &sys::ibv_device_attr) -> Limits {
    let byte = |number: c_int| u8::try_from(number.clamp(0, 255)).expect("clamped to a byte");
    Limits {
        atomicity: match found.atomic_cap {
            0 => Atomicity::None,
            2 => Atomicity::Global,
            _ => Atomicity::Device,
        },
        reads_served: byte(found.max_qp_rd_atom),
        reads_begun: byte(found.max_qp_init_rd_atom),
        queue_depth: positive(found.max_qp_wr),
    }
}

/// A count, as C has them.
fn positive(count: c_int) -> u32 {
    u32::try_from(count).unwrap_or(0)
}

/// A pointer that the library refused to give.
pub(super) fn made<T>(raw: *mut T, context: &Context, call: &'static str) -> Result<NonNull<T>> {
    NonNull::new(raw).ok_or_else(|| Library::refusal(&context.name, call))
}

/// Nothing, where the library takes an object that it need not have.
pub(super) fn none<T>() -> *mut T {
    ptr::null_mut()
}
