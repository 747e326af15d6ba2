//! A node at the other end of two rings.

use std::sync::{Arc, Mutex};

use super::{
    lock,
    ring::{Consumer, Producer},
    segment::Segment,
};
use crate::{
    NodeId,
    primitive::{AtomicU64, Ordering},
};

/// What a node keeps of a peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) segment: Arc<Segment>,
    pub(super) outgoing: Mutex<Outgoing>,
    pub(super) incoming: Consumer,
    // The cell of the next message to the peer, if one was sent since the last one came from it;
    // else zero.
    reply: AtomicU64,
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
        Self { segment, outgoing, incoming, reply: AtomicU64::new(0) }
    }

    /// Takes note that a message was sent, and where the next will be.
    #[inline]
    pub(super) fn note_sent(&self, outgoing: &Outgoing) {
        // Relaxed: a hint.
        self.reply.store(outgoing.producer.head(), Ordering::Relaxed);
    }

    /// Gets ready for a reply of `node`, this one, to the message that has come, if the two are
    /// taking turns. Who only receives would but take the cell away from a peer that looks at it.
    #[inline]
    pub(super) fn expect_reply(&self, node: NodeId) {
        // Relaxed, both: a hint.
        let cell = self.reply.load(Ordering::Relaxed);
        if cell != 0 {
            self.reply.store(0, Ordering::Relaxed);
            self.segment.ring_from(node).prepare(cell);
        }
    }

    /// Whether the ring from `node`, this one, was full and has room again.
    pub(super) fn has_room_again(&self, node: NodeId) -> bool {
        let mut outgoing = lock(&self.outgoing);
        outgoing.is_full && outgoing.producer.has_room_for_any(self.segment.ring_from(node))
    }
}
