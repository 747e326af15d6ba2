//! Who is who.

use std::fmt;

/// A node's number in its cluster: dense, counted from zero, fixed while the cluster lives.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct NodeId(u16);

impl NodeId {
    /// The node that is numbered `number`.
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// The number, as it travels on a wire.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// The number, to index a table with one entry a node.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Every node of a cluster of `nodes`, in order.
    pub fn all(nodes: u16) -> impl DoubleEndedIterator<Item = Self> + Clone {
        (0..nodes).map(Self)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}
