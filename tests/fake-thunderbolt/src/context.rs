//! An open device.

use std::{
    io,
    sync::{Arc, OnceLock},
};

use crate::{
    adapter::Adapter,
    device::Device,
    engine::{Engine, Watch},
    shared::Shared,
};

/// A device as a program has opened it.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: Arc<Device>,
    pub(crate) adapter: Arc<Shared<Adapter>>,
    pub(crate) peer_adapter: Shared<Adapter>,
    pub(crate) watch: Arc<Watch>,
    engine: OnceLock<Engine>,
}

impl Context {
    pub(crate) fn open(device: Arc<Device>) -> io::Result<Arc<Self>> {
        let directory = &device.settings.directory;
        let adapter = Arc::new(Adapter::open(directory, device.port)?);
        let peer_adapter = Adapter::open(directory, device.peer)?;
        let watch = Arc::new(Watch::new(adapter.clone()));
        Ok(Arc::new(Self { device, adapter, peer_adapter, watch, engine: OnceLock::new() }))
    }

    /// Whether the port is active: both hosts have RDMA enabled (`apple-rdma.md` 1.1), and the
    /// cable is in.
    ///
    /// Hosts have, not processes: a program that has not started yet, or has died, does not make a
    /// port inactive.
    pub(crate) fn is_active(&self) -> bool {
        let Device { settings, port, peer, .. } = &*self.device;
        settings.is_up(*port) && settings.is_up(*peer) && self.is_plugged()
    }

    /// Whether frames can cross the cable.
    pub(crate) fn is_plugged(&self) -> bool {
        self.adapter.is_plugged() && self.peer_adapter.is_plugged()
    }

    /// Has the adapter work by itself from now on while a completion is awaited.
    pub(crate) fn start_engine(&self) {
        let faults = &self.device.settings.faults;
        self.engine.get_or_init(|| Engine::start(self.watch.clone(), faults));
    }
}
