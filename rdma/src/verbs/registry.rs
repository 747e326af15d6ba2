//! The memory of this node that its device may touch, registered slab by slab when first used.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    memory_region::{Access, MemoryRegion},
    protection_domain::ProtectionDomain,
    slabs::{Slab, slab_of},
};
use crate::{Mapping, Region, Result};

/// The mappings that a device may come to touch.
#[derive(Debug)]
pub struct Registry {
    tables: Mutex<Tables>,
    domain: Arc<ProtectionDomain>,
}

#[derive(Debug, Default)]
struct Tables {
    // By the address at which they begin.
    memories: BTreeMap<u64, Memory>,
    // What the peers know by a number: where it begins.
    regions: HashMap<Region, u64>,
}

#[derive(Debug)]
struct Memory {
    mapping: Arc<Mapping>,
    access: Access,
    // By their beginnings; `None` for one that the device refused, which is not asked again.
    slabs: BTreeMap<u64, Option<MemoryRegion>>,
}

/// Why a peer gets no slab.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum NoSlab {
    /// There is no such region.
    UnknownRegion,
    /// The region has only so many bytes.
    OutOfBounds { capacity: u64 },
    /// The device does not register it.
    Refused,
}

impl Registry {
    /// A registry without memory.
    pub fn new(domain: &Arc<ProtectionDomain>) -> Arc<Self> {
        Arc::new(Self { tables: Mutex::default(), domain: domain.clone() })
    }

    /// Its protection domain, to which the queue pairs belong that use it.
    pub fn domain(&self) -> &Arc<ProtectionDomain> {
        &self.domain
    }

    /// Lets the peers read and write `memory`, which they know as `region`.
    pub fn share(&self, region: Region, memory: &Arc<Mapping>) {
        let mut tables = self.lock();
        let address = tables.insert(memory, Access::Remote);
        tables.regions.insert(region, address);
    }

    /// Lets this node's device read and write `memory`, so that nothing need be copied there.
    pub fn keep(&self, memory: &Arc<Mapping>) {
        self.lock().insert(memory, Access::Local);
    }

    /// The slab that holds the byte at `offset` of `region`, for a peer, and how many bytes the
    /// region has.
    pub(super) fn grant(&self, region: Region, offset: u64) -> Result<(u64, Slab), NoSlab> {
        let mut tables = self.lock();
        let address = *tables.regions.get(&region).ok_or(NoSlab::UnknownRegion)?;
        let memory = tables.memories.get_mut(&address).ok_or(NoSlab::UnknownRegion)?;
        let capacity = memory.mapping.len() as u64;
        if offset >= capacity {
            return Err(NoSlab::OutOfBounds { capacity });
        }
        let (start, slab) = memory.slab(&self.domain, offset);
        let slab = slab.ok_or(NoSlab::Refused)?;
        let (len, address, key) = (slab.len(), slab.address(), slab.remote_key());
        Ok((capacity, Slab { start, len, address, key }))
    }

    /// The key by which the device knows the byte at `address`, and how many bytes from there on;
    /// `None` where it may not touch that.
    pub(super) fn local_key(&self, address: u64) -> Option<(u32, u64)> {
        let mut tables = self.lock();
        let (start, memory) = tables.memories.range_mut(..=address).next_back()?;
        let offset = address - start;
        if offset >= memory.mapping.len() as u64 {
            return None;
        }
        let (_, slab) = memory.slab(&self.domain, offset);
        let slab = slab?;
        Some((slab.local_key(), slab.address() + slab.len() - address))
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        // Every change is one insertion: a thread that panicked left nothing half done.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn insert(&mut self, mapping: &Arc<Mapping>, access: Access) -> u64 {
        let address = mapping.as_ptr().as_ptr().addr() as u64;
        let memory = Memory { mapping: mapping.clone(), access, slabs: BTreeMap::new() };
        self.memories.insert(address, memory);
        address
    }
}

impl Memory {
    /// The slab that holds the byte at `offset`, registered now if it is not yet, and where it
    /// begins.
    fn slab(
        &mut self,
        domain: &Arc<ProtectionDomain>,
        offset: u64,
    ) -> (u64, Option<&MemoryRegion>) {
        let address = self.mapping.as_ptr().as_ptr().addr() as u64;
        let range = slab_of(address, self.mapping.len() as u64, offset);
        let start = range.start;
        let slab = self
            .slabs
            .entry(start)
            .or_insert_with(|| MemoryRegion::new(domain, &self.mapping, range, self.access).ok());
        (start, slab.as_ref())
    }
}
