//! How the nodes of a job find each other.
//!
//! Whoever starts the nodes holds a [`local::Rendezvous`] and passes its place by environment
//! variables; each node goes there with [`local::join`] and comes back with a socket to every peer.

pub mod local;

use std::os::unix::net::UnixStream;

use crate::NodeId;

/// Nodes that have met: who this one is, and a socket to each of the others.
#[derive(Debug)]
pub struct Meeting {
    pub(crate) node: NodeId,
    pub(crate) nodes: u16,
    // By node; `None` for this one.
    pub(crate) sockets: Vec<Option<UnixStream>>,
    // To the launcher, who is told of every node that this one loses.
    pub(crate) lifeline: Option<UnixStream>,
}

impl Meeting {
    /// The meeting of a node with itself.
    pub fn alone() -> Self {
        Self { node: NodeId::new(0), nodes: 1, sockets: vec![None], lifeline: None }
    }

    /// Which node this one is.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// How many have met.
    pub fn nodes(&self) -> u16 {
        self.nodes
    }
}
