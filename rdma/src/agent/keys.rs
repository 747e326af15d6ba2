//! Regions by their keys: what this node lets its peers name, and what they let it name.

use std::{
    collections::HashMap,
    fs::File,
    io::Read,
    sync::{Arc, PoisonError, RwLock},
};

use crate::{Error, Mapping, NodeId, Region, RemoteAddr, Result};

/// Regions that a node may announce; more is a breach of the protocol.
const REGIONS_MAX: u64 = 1024;

/// A peer's region, as it was announced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced {
    pub(super) key: u64,
    pub(super) len: u64,
}

/// The regions of all nodes that are reached by an agent.
#[derive(Debug, Default)]
pub(super) struct Keys {
    own: RwLock<HashMap<u64, Arc<Mapping>>>,
    announced: RwLock<HashMap<(NodeId, Region), Announced>>,
}

impl Keys {
    /// Gives `memory` of this node a key.
    pub(super) fn register(&self, memory: Arc<Mapping>) -> Result<u64> {
        let mut bytes = [0; 8];
        // Random, so that a peer can name only what it was told of.
        File::open("/dev/urandom")
            .and_then(|mut source| source.read_exact(&mut bytes))
            .map_err(Error::os("reading random numbers"))?;
        let key = u64::from_le_bytes(bytes);
        self.own.write().unwrap_or_else(PoisonError::into_inner).insert(key, memory);
        Ok(key)
    }

    /// The region of this node that `key` names.
    pub(super) fn own(&self, key: u64) -> Option<Arc<Mapping>> {
        self.own.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// Takes in what `peer` has announced.
    pub(super) fn announce(&self, peer: NodeId, number: u64, announced: Announced) -> Result {
        let region = u32::try_from(number).ok().filter(|_| number < REGIONS_MAX).map(Region);
        let mut table = self.announced.write().unwrap_or_else(PoisonError::into_inner);
        match region {
            Some(region) if !table.contains_key(&(peer, region)) => {
                table.insert((peer, region), announced);
                Ok(())
            }
            _ => Err(Error::protocol(format!("{peer} announced region {number} wrongly"))),
        }
    }

    /// A peer's region.
    pub(super) fn of_peer(&self, peer: NodeId, region: Region) -> Result<Announced> {
        let table = self.announced.read().unwrap_or_else(PoisonError::into_inner);
        let found = table.get(&(peer, region)).copied();
        found.ok_or(Error::UnknownRegion { node: peer, region: region.0 })
    }

    /// The key of the region that holds `len` bytes at `at`.
    pub(super) fn find(&self, at: RemoteAddr, len: u64) -> Result<u64> {
        let Announced { key, len: capacity } = self.of_peer(at.node, at.region)?;
        let offset = at.offset;
        if offset.checked_add(len).is_none_or(|end| end > capacity) {
            return Err(Error::OutOfBounds { offset, len, capacity });
        }
        Ok(key)
    }

    /// The key of the region that holds a word at `at`.
    pub(super) fn find_word(&self, at: RemoteAddr) -> Result<u64> {
        if !at.offset.is_multiple_of(8) {
            return Err(Error::Unaligned { offset: at.offset, align: 8 });
        }
        self.find(at, 8)
    }
}
