//! A node at the other end of two rings.

use std::sync::{Arc, Mutex};

use super::{
    lock,
    ring::{Consumer, Producer},
    segment::Segment,
};
use crate::NodeId;

/// What a node keeps of a peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) segment: Arc<Segment>,
    pub(super) outgoing: Mutex<Outgoing>,
    pub(super) incoming: Consumer,
}

#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) producer: Producer,
    // The ring had no room for the last message.
    pub(super) is_full: bool,
}

impl Peer {
    pub(super) fn new(segment: Arc<Segment>) -> Self {
        let (outgoing, incoming) = Default::default();
        Self { segment, outgoing, incoming }
    }

    /// Whether the ring from `node`, this one, was full and has room again.
    pub(super) fn has_room_again(&self, node: NodeId) -> bool {
        let mut outgoing = lock(&self.outgoing);
        outgoing.is_full && outgoing.producer.has_room_for_any(self.segment.ring_from(node))
    }
}
