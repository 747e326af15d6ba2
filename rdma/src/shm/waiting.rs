//! What a node waits for, and how it is woken.

use super::Shm;
use crate::{Fabric, NodeId, primitive::Ordering};

impl Shm {
    /// Has this node called by its rope from now on, until it
    /// [stops listening](Self::stop_listening).
    pub(crate) fn listen(&self) {
        self.own.messages().listen();
        self.own.signals().listen();
    }

    /// Ends [`listen`](Self::listen).
    pub(crate) fn stop_listening(&self) {
        self.own.messages().stop_listening();
        self.own.signals().stop_listening();
    }

    /// Whether this node [listens](Self::listen).
    #[cfg(all(test, not(loom)))]
    pub(crate) fn is_listening(&self) -> bool {
        self.own.messages().sleepers().1
    }

    /// Wakes who waits at this node, whatever for.
    pub(crate) fn ring_all(&self) {
        self.own.ring_messages();
        self.own.ring_signals();
    }

    /// Whether [`poll`](Fabric::poll) would find something.
    pub(crate) fn has_arrived_near(&self) -> bool {
        self.has_message() || self.has_done() || self.has_room_again()
    }

    pub(super) fn has_done(&self) -> bool {
        // Acquire: pairs with the Release in `post`.
        self.done_count.load(Ordering::Acquire) != 0
    }

    pub(super) fn has_message(&self) -> bool {
        let mut peers = NodeId::all(u16::MAX).zip(&self.peers);
        peers.any(|(source, peer)| {
            peer.as_ref().is_some_and(|peer| peer.incoming.is_ready(self.own.ring_from(source)))
        })
    }

    /// Whether a ring that was full has room again. That of a node that is gone stays as it is:
    /// nothing is sent there any more.
    fn has_room_again(&self) -> bool {
        // Relaxed: see `count_full`.
        if self.full_count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut peers = NodeId::all(u16::MAX).zip(&self.peers);
        peers.any(|(target, peer)| {
            let peer = peer.as_ref().filter(|_| !self.is_lost(target));
            peer.is_some_and(|peer| peer.has_room_again(self.node))
        })
    }
}
