//! A device, before it is opened.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    fmt, ptr,
    sync::Arc,
};

use crate::{cabling::Port, settings::Settings};

/// A channel adapter, as the header numbers kinds of devices.
const NODE_CHANNEL_ADAPTER: c_int = 1;
/// Apple's transport (`apple-rdma.md` 1.1).
const TRANSPORT_THUNDERBOLT: c_int = 100;

/// A device; its first fields are those of the header's `ibv_device`.
#[repr(C)]
pub(crate) struct Device {
    _operations: [*const c_void; 2],
    _node_type: c_int,
    _transport_type: c_int,
    name: [c_char; 64],
    pub(crate) settings: Arc<Settings>,
    pub(crate) port: Port,
    /// The port at the other end of the cable.
    pub(crate) peer: Port,
}

// SAFETY: the pointers are null, and nobody uses them.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    fn new(settings: Arc<Settings>, port: Port, peer: Port) -> Self {
        let mut name = [0; 64];
        let text = format!("rdma_en{}", port.number);
        for (byte, place) in text.bytes().zip(&mut name) {
            *place = c_char::from_ne_bytes([byte]);
        }
        Self {
            _operations: [ptr::null(); 2],
            _node_type: NODE_CHANNEL_ADAPTER,
            _transport_type: TRANSPORT_THUNDERBOLT,
            name,
            settings,
            port,
            peer,
        }
    }

    /// All devices of a host.
    pub(crate) fn all(settings: &Arc<Settings>) -> Vec<Arc<Self>> {
        let cabling = &settings.cabling;
        let ports = cabling.ports(settings.host).into_iter();
        let cabled = ports.filter_map(|port| Some((port, cabling.peer(port)?)));
        cabled.map(|(port, peer)| Arc::new(Self::new(settings.clone(), port, peer))).collect()
    }

    /// `rdma_en2` and so on.
    pub(crate) fn name(&self) -> &CStr {
        // SAFETY: the name is shorter than its room, which ends in zeroes.
        unsafe { CStr::from_ptr(self.name.as_ptr()) }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} to {}", self.name(), self.peer)
    }
}
