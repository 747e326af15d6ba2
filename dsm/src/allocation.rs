//! Where memory is taken: on one node, or some on each.

mod far;

use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use pangea_alloc::Layout;
use pangea_rdma::NodeId;

use crate::{
    Error, Result,
    allocation::far::Far,
    cluster::Member,
    naming::unexpected,
    progress::Shared,
    wire::{Message, Reply},
};

/// Allocations begin with a cache line, so that two of them never share one.
const ALIGN_MIN: u64 = 64;

/// Whose heap holds a vector.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Placement {
    /// This node's.
    Here,
    /// That node's.
    On(NodeId),
    /// Everybody's: consecutive elements on each node, as evenly as can be.
    Spread,
}

impl Placement {
    /// How many of `len` elements go to which node, in order.
    fn shares(self, len: usize, here: NodeId, nodes: u16) -> Vec<(NodeId, usize)> {
        match self {
            Self::Here => vec![(here, len)],
            Self::On(node) => vec![(node, len)],
            Self::Spread => {
                let (each, rest) = (len / usize::from(nodes), len % usize::from(nodes));
                NodeId::all(nodes)
                    .map(|node| (node, each + usize::from(node.index() < rest)))
                    .collect()
            }
        }
    }
}

/// Consecutive elements of a vector that live on one node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Part {
    pub(crate) home: NodeId,
    pub(crate) offset: u64,
    pub(crate) elements: Range<usize>,
}

impl Part {
    /// The node whose heap holds them.
    pub fn home(&self) -> NodeId {
        self.home
    }

    /// Which elements these are.
    pub fn elements(&self) -> Range<usize> {
        self.elements.clone()
    }
}

/// The memory of a vector; freed when dropped, unless others may know of it.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) member: Arc<Member>,
    pub(crate) parts: Box<[Part]>,
    // How often it was published, or is about to be: then others may have handles of it, and it
    // stays until the cluster ends.
    publications: AtomicU32,
    // In bytes.
    element_size: u64,
    // What of it was fetched from other hosts, or is yet to be brought there.
    far: Far,
}

impl Allocation {
    /// Takes memory, all zero, for `len` elements of `T`.
    pub(crate) fn new<T>(member: &Arc<Member>, len: usize, placement: Placement) -> Result<Self> {
        let size = size_of::<T>();
        let is_possible = len.checked_mul(size).is_some_and(|bytes| isize::try_from(bytes).is_ok());
        if !is_possible {
            return Err(Error::TooLarge { len, size });
        }
        let mut memory = Self::of::<T>(member, Box::default(), 0);
        let shared = &member.shared;
        let mut parts = Vec::new();
        let mut start = 0;
        for (home, len) in placement.shares(len, shared.node(), shared.fabric.nodes()) {
            let taken = take::<T>(shared, home, len);
            match taken {
                Ok(offset) => parts.push(Part { home, offset, elements: start..start + len }),
                Err(error) => {
                    // Dropped: what was taken on other nodes is freed.
                    memory.parts = parts.into();
                    return Err(error);
                }
            }
            start += len;
        }
        memory.parts = parts.into();
        Ok(memory)
    }

    /// Memory that another node has published.
    pub(crate) fn of_peer<T>(member: &Arc<Member>, parts: Box<[Part]>) -> Self {
        Self::of::<T>(member, parts, 1)
    }

    fn of<T>(member: &Arc<Member>, parts: Box<[Part]>, publications: u32) -> Self {
        Self {
            member: member.clone(),
            parts,
            publications: AtomicU32::new(publications),
            element_size: size_of::<T>() as u64,
            far: Far::default(),
        }
    }

    /// Whether others may know of it.
    pub(crate) fn is_published(&self) -> bool {
        // Relaxed: who asks has the only handle, or does not mind.
        self.publications.load(Ordering::Relaxed) != 0
    }

    /// Others may know of it from now on.
    pub(crate) fn publish(&self) {
        // Relaxed: as above.
        self.publications.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one `publish` back, of which nobody can have heard.
    pub(crate) fn take_back(&self) {
        // Relaxed: as above.
        self.publications.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.release();
        if self.is_published() {
            return;
        }
        let shared = &self.member.shared;
        for part in self.parts.iter().filter(|part| !part.elements.is_empty()) {
            let bytes = part.offset..part.offset + part.elements.len() as u64 * self.element_size;
            if !shared.cache.forget(part.home, &bytes) {
                // It is being fetched, ahead of a use that there will not be. To free it might let
                // what comes late be written over what comes next.
                continue;
            }
            // Nothing is waited for; a home that is lost has no heap to free in.
            _ = if part.home == shared.node() {
                free_here(shared, part.offset)
            } else {
                shared.send(part.home, &Message::Free { offset: part.offset })
            };
        }
    }
}

/// Takes memory for `len` elements of `T` in the heap of `home`; none for none.
fn take<T>(shared: &Shared, home: NodeId, len: usize) -> Result<u64> {
    if home.number() >= shared.fabric.nodes() {
        let reason = format!("there is no {home}: the cluster has {} nodes", shared.fabric.nodes());
        return Err(Error::Config { field: "placement", reason });
    }
    if len == 0 {
        return Ok(0);
    }
    if Layout::array::<T>(len as u64).is_err() {
        return Err(Error::TooLarge { len, size: size_of::<T>() });
    }
    shared.check_present(home)?;
    let (size, align) = ((len * size_of::<T>()) as u64, (align_of::<T>() as u64).max(ALIGN_MIN));
    let reply = if home == shared.node() {
        serve(shared, size, align)
    } else {
        let waiting_for = format!("{home} to allocate {size} bytes");
        shared.request(home, &waiting_for, |ticket| Message::Allocate { ticket, size, align })?
    };
    match reply {
        Reply::Allocated(offset) => Ok(offset),
        Reply::OutOfMemory { largest_free, capacity } => {
            Err(Error::OutOfMemory { node: home, wanted: size, largest_free, capacity })
        }
        Reply::Refused(reason) => Err(Error::Protocol { reason }),
        other => Err(unexpected(&other)),
    }
}

/// Allocates in this node's heap, for itself or for a peer.
pub(crate) fn serve(shared: &Shared, size: u64, align: u64) -> Reply {
    match Layout::new(size, align).and_then(|layout| shared.heap.allocate(layout)) {
        Ok(offset) => Reply::Allocated(offset),
        Err(pangea_alloc::Error::OutOfMemory { largest_free, capacity, .. }) => {
            Reply::OutOfMemory { largest_free, capacity }
        }
        Err(error) => Reply::Refused(error.to_string()),
    }
}

/// Frees in this node's heap; the memory is zero again, as what is allocated must be.
pub(crate) fn free_here(shared: &Shared, offset: u64) -> Result {
    let refused = |error: pangea_alloc::Error| Error::Protocol { reason: error.to_string() };
    let size = shared.heap.size(offset).map_err(refused)?;
    shared.space.window(shared.node()).clear(offset, size)?;
    shared.heap.free(offset).map_err(refused)
}

/// What peers have allocated in this node's heap: only who has allocated something may free it,
/// once.
#[derive(Debug, Default)]
pub(crate) struct Loans {
    // By offset. What a node holds that has died stays taken: others may have handles of it.
    owners: Mutex<HashMap<u64, NodeId>>,
}

impl Loans {
    /// Allocates for `node`.
    pub(crate) fn serve(&self, shared: &Shared, node: NodeId, size: u64, align: u64) -> Reply {
        let reply = serve(shared, size, align);
        if let Reply::Allocated(offset) = reply {
            self.lock().insert(offset, node);
        }
        reply
    }

    /// Frees what `node` has allocated at `offset`.
    pub(crate) fn free(&self, shared: &Shared, node: NodeId, offset: u64) -> Result {
        let mut owners = self.lock();
        if owners.get(&offset) != Some(&node) {
            return Err(Error::Protocol { reason: format!("{node} frees what is not its own") });
        }
        owners.remove(&offset);
        drop(owners);
        free_here(shared, offset)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, NodeId>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_shares_differ_by_one_at_most_and_keep_all() {
        for nodes in 1..=8 {
            for len in [0, 1, 3, 10, 1000, usize::MAX] {
                let shares = Placement::Spread.shares(len, NodeId::new(0), nodes);
                assert_eq!(shares.iter().map(|(_, len)| len).sum::<usize>(), len);
                let lens = shares.iter().map(|(_, len)| *len);
                assert!(lens.clone().max().unwrap() - lens.min().unwrap() <= 1);
                assert!(shares.iter().map(|(node, _)| *node).eq(NodeId::all(nodes)));
            }
        }
    }
}
