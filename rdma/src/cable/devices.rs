//! The devices of this node that are up, and what is made of them for all peers: one protection
//! domain a device, as they have few.

use std::{collections::HashMap, sync::Arc};

use crate::{
    Mapping, Region, Result,
    verbs::{Library, Port, ProtectionDomain, Registry},
};

/// This node's ports, and what was made of them.
#[derive(Debug)]
pub(super) struct Devices {
    ports: Vec<Port>,
    // By device.
    domains: HashMap<String, Arc<ProtectionDomain>>,
    registries: HashMap<String, Arc<Registry>>,
}

impl Devices {
    /// Those of this machine that are up.
    pub(super) fn look() -> Result<Self> {
        let ports = Port::all_active(&Library::load()?)?;
        Ok(Self { ports, domains: HashMap::new(), registries: HashMap::new() })
    }

    /// A port of each.
    pub(super) fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// The protection domain on a port's device.
    pub(super) fn domain(&mut self, port: &Port) -> Result<Arc<ProtectionDomain>> {
        if let Some(domain) = self.domains.get(port.context().name()) {
            return Ok(domain.clone());
        }
        let domain = ProtectionDomain::new(port)?;
        self.domains.insert(port.context().name().to_owned(), domain.clone());
        Ok(domain)
    }

    /// The memory that a port's device may touch.
    pub(super) fn registry(&mut self, port: &Port) -> Result<Arc<Registry>> {
        let domain = self.domain(port)?;
        let registry = self.registries.entry(port.context().name().to_owned());
        Ok(registry.or_insert_with(|| Registry::new(&domain)).clone())
    }

    /// Lets the devices of the peers read and write `memory`, which is `region` here.
    pub(super) fn share(&self, region: Region, memory: &Arc<Mapping>) {
        self.registries.values().for_each(|registry| registry.share(region, memory));
    }
}
