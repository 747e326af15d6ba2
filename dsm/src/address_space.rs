//! Where the heaps appear: each in a window, at the same addresses on every node.
//!
//! ```text
//! base            base + stride     base + 2 stride
//! +---------------+-----------------+----------------
//! | heap of node 0 | heap of node 1 | heap of node 2 …     stride: a power of two
//! +---------------+-----------------+----------------
//! ```
//!
//! So that an address means the same everywhere, all nodes must find the range free. Node 0
//! proposes places at random until nobody objects; nothing is ever overwritten, and ASLR stays on.

use std::{
    hash::{BuildHasher, RandomState},
    ptr::NonNull,
    sync::Arc,
};

use pangea_rdma::{Mapping, NodeId, Reservation, SharedObject};

use crate::{Error, Result};

/// Places are tried between here …
const LOWEST: u64 = 0x1000_0000_0000;
/// … and here: half of the addresses that x86-64, AArch64 and macOS give to a process.
const HIGHEST: u64 = 0x5000_0000_0000;
/// Windows begin at multiples of this, as large pages do.
const STRIDE_MIN: u64 = 2 << 20;
/// Places that node 0 proposes before it gives up.
pub(crate) const CANDIDATES: u64 = 64;

/// A range of addresses for the windows of all nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Span {
    pub(crate) base: u64,
    pub(crate) stride: u64,
    pub(crate) nodes: u16,
}

impl Span {
    /// The stride of windows that hold heaps of up to `heap_bytes`.
    pub(crate) fn stride_for(heap_bytes: u64) -> u64 {
        // A heap too large for that is too large for an address space, as `len` will say.
        heap_bytes.checked_next_power_of_two().unwrap_or(1 << 63).max(STRIDE_MIN)
    }

    /// A place at random, another for each `attempt`.
    pub(crate) fn candidate(nodes: u16, stride: u64, attempt: u64) -> Result<Self> {
        let random = RandomState::new().hash_one(attempt);
        let len = Self { base: 0, stride, nodes }.len()?;
        let places = (HIGHEST - LOWEST).saturating_sub(len) / stride;
        Ok(Self { base: LOWEST + random % places.max(1) * stride, stride, nodes })
    }

    fn len(&self) -> Result<u64> {
        let len = self.stride.checked_mul(u64::from(self.nodes));
        len.filter(|len| *len <= HIGHEST - LOWEST).ok_or_else(|| Error::Config {
            field: "PANGEA_HEAP",
            reason: format!(
                "{} windows of {} bytes do not fit an address space; make the heaps smaller",
                self.nodes, self.stride
            ),
        })
    }

    /// Reserves the range, if it is free in this process.
    pub(crate) fn reserve(&self) -> Result<Option<Reservation>> {
        let narrow = |value: u64| usize::try_from(value).expect("addresses have 64 bits");
        Ok(Reservation::at(narrow(self.base), narrow(self.len()?))?)
    }
}

/// The heaps of all nodes, mapped.
#[derive(Debug)]
pub(crate) struct AddressSpace {
    reservation: Arc<Reservation>,
    stride: u64,
    // By node.
    windows: Vec<Window>,
}

/// Where the heap of a node appears.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) memory: Arc<Mapping>,
    /// The memory is this process's own: the heap is on another host, and parts of it are copied.
    pub(crate) is_far: bool,
}

impl AddressSpace {
    pub(crate) fn new(reservation: Reservation, span: Span) -> Self {
        Self { reservation: Arc::new(reservation), stride: span.stride, windows: Vec::new() }
    }

    /// Maps the heap of `node` into its window.
    pub(crate) fn map(&self, node: NodeId, heap: SharedObject) -> Result<Arc<Mapping>> {
        if heap.len() as u64 > self.stride {
            let reason = format!("the heap of {node} is larger than its window");
            return Err(Error::Protocol { reason });
        }
        let offset = usize::try_from(self.stride).expect("addresses have 64 bits") * node.index();
        Ok(Arc::new(self.reservation.map(offset, heap)?))
    }

    /// Completes the space: one mapping a node, in order.
    pub(crate) fn set_windows(&mut self, windows: Vec<Window>) {
        self.windows = windows;
    }

    /// The window of `node`.
    pub(crate) fn window(&self, node: NodeId) -> &Arc<Mapping> {
        &self.windows[node.index()].memory
    }

    /// Whether the heap of `node` is on another host.
    pub(crate) fn is_far(&self, node: NodeId) -> bool {
        self.windows.get(node.index()).is_some_and(|window| window.is_far)
    }

    /// The address of `len` bytes at `offset` in the heap of `home`.
    pub(crate) fn address(&self, home: NodeId, offset: u64, len: u64) -> Result<NonNull<u8>> {
        let Some(window) = self.windows.get(home.index()) else {
            return Err(Error::Protocol { reason: format!("there is no {home}") });
        };
        Ok(window.memory.range(offset, len)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_lie_in_the_range_and_on_a_stride() {
        for (nodes, heap) in [(1, 1), (8, 24 << 30), (256, 1 << 30)] {
            let stride = Span::stride_for(heap);
            for attempt in 0..CANDIDATES {
                let span = Span::candidate(nodes, stride, attempt).unwrap();
                assert_eq!(span.base % stride.min(LOWEST), 0);
                assert!(span.base >= LOWEST && span.base + span.len().unwrap() <= HIGHEST);
            }
        }
    }

    #[test]
    fn heaps_beyond_an_address_space_are_refused() {
        let error = Span::candidate(256, 1 << 40, 0).unwrap_err();
        assert!(matches!(error, Error::Config { field: "PANGEA_HEAP", .. }), "{error}");
    }

    #[test]
    fn a_range_in_use_is_no_candidate() {
        let span = Span::candidate(2, STRIDE_MIN, 0).unwrap();
        let first = span.reserve().unwrap().expect("a random range is free");
        assert!(span.reserve().unwrap().is_none());
        drop(first);
        assert!(span.reserve().unwrap().is_some());
    }
}
