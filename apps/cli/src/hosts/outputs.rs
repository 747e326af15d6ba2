//! Where the output of the nodes of a host goes.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use pangea::NodeId;

use crate::sink::Sink;

/// What could not be written, of any host.
pub(crate) type Unwritten = Arc<Mutex<Option<io::Error>>>;

/// The sinks of some nodes, each with one for output and one for errors.
pub(super) struct Outputs {
    sinks: BTreeMap<NodeId, [Sink; 2]>,
    unwritten: Unwritten,
}

impl Outputs {
    pub(super) fn new(unwritten: Unwritten) -> Self {
        Self { sinks: BTreeMap::new(), unwritten }
    }

    pub(super) fn add(&mut self, node: NodeId, sinks: [Sink; 2]) {
        self.sinks.insert(node, sinks);
    }

    /// Writes what a node has printed. What cannot be written is dropped, and the first of it
    /// remembered: the node is not to wait.
    pub(super) fn write(&mut self, node: NodeId, is_error: bool, bytes: &[u8]) {
        let Some(sinks) = self.sinks.get_mut(&node) else { return };
        if let Err(error) = sinks[usize::from(is_error)].write(bytes) {
            let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
            unwritten.get_or_insert(error);
        }
    }
}
