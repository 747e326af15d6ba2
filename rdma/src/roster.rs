//! Which nodes are still there, as this one sees it, whichever way it reaches them.
//!
//! # Memory ordering
//!
//! The Release with which a loss is noted pairs with the Acquires of [`Roster::presence`] and
//! [`Roster::epoch`]: who sees the loss sees all that was received before it.

use crate::{
    Error, NodeId, Presence, Way,
    bootstrap::Lifeline,
    primitive::{AtomicU32, AtomicU64, Ordering},
};

const HERE: u32 = 0;
const LEFT: u32 = 1;
const DIED: u32 = 2;

/// How a node went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Departure {
    /// It said goodbye.
    Left,
    /// It did not.
    Died,
}

/// The nodes of the cluster.
#[derive(Debug)]
pub(crate) struct Roster {
    node: NodeId,
    // By node.
    presence: Vec<AtomicU32>,
    epoch: AtomicU64,
    // This node has said goodbye: peers close their ends for it, and mean nothing by that.
    has_left: AtomicU32,
    // To the launcher, who is told of every node that this one loses.
    lifeline: Option<Lifeline>,
}

impl Roster {
    pub(crate) fn new(node: NodeId, nodes: u16, lifeline: Option<Lifeline>) -> Self {
        let presence = NodeId::all(nodes).map(|_| AtomicU32::new(HERE)).collect();
        let (epoch, has_left) = (AtomicU64::new(1), AtomicU32::new(0));
        Self { node, presence, epoch, has_left, lifeline }
    }

    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    pub(crate) fn nodes(&self) -> u16 {
        u16::try_from(self.presence.len()).expect("nodes are numbered by u16")
    }

    /// Whether `peer` is there.
    #[inline]
    pub(crate) fn presence(&self, peer: NodeId) -> Presence {
        // Acquire: pairs with the Release in `lose`.
        match self.presence.get(peer.index()).map(|state| state.load(Ordering::Acquire)) {
            Some(HERE) => Presence::Here,
            Some(LEFT) => Presence::Left,
            // A node that there is not is as good as dead.
            _ => Presence::Died,
        }
    }

    /// Grows with every loss.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        // Acquire: pairs with the Release in `lose`.
        self.epoch.load(Ordering::Acquire)
    }

    /// That `node` is gone, to who wants something of it; see
    /// [`first_cause`](crate::Fabric::first_cause) for whom it names.
    pub(crate) fn lost(&self, node: NodeId) -> Error {
        let has_left = self.presence(node) == Presence::Left;
        let node = self.first_dead().filter(|_| has_left).unwrap_or(node);
        Error::PeerLost { node, epoch: self.epoch() }
    }

    /// The first node that has died.
    pub(crate) fn first_dead(&self) -> Option<NodeId> {
        NodeId::all(self.nodes()).find(|&node| self.presence(node) == Presence::Died)
    }

    /// Takes note that this node says goodbye: from now on it misses nobody.
    pub(crate) fn leave(&self) {
        // Release: pairs with the Acquire in `lose`.
        self.has_left.store(1, Ordering::Release);
    }

    /// Tells the launcher by which of `ways` this node reaches each peer. The lower one of two
    /// nodes speaks for both.
    pub(crate) fn report_ways(&self, ways: &[Way]) {
        let Some(lifeline) = &self.lifeline else { return };
        let peers = NodeId::all(self.nodes()).zip(ways).filter(|(peer, _)| *peer > self.node);
        let lines = peers.map(|(peer, way)| {
            format!("{} reaches {peer} by {}: {}\n", self.node, way.name, way.reason)
        });
        lifeline.report_ways(&lines.collect::<String>());
    }

    /// Takes `peer` for gone; `false` where it was before. Who waits is for the caller to wake.
    pub(crate) fn lose(&self, peer: NodeId, departure: Departure) -> bool {
        // Acquire: pairs with the Release in `leave`.
        let has_left = self.has_left.load(Ordering::Acquire) != 0;
        let state = match departure {
            Departure::Died if !has_left => DIED,
            _ => LEFT,
        };
        if peer == self.node || self.presence(peer) != Presence::Here {
            return false;
        }
        if let Some(lifeline) = self.lifeline.as_ref().filter(|_| !has_left) {
            // First, so that the launcher knows before this node can fail for it.
            lifeline.report(peer);
        }
        // Release: pairs with the Acquire in `presence`. Relaxed: only who is first goes on.
        let order = (Ordering::Release, Ordering::Relaxed);
        let changed =
            self.presence[peer.index()].compare_exchange(HERE, state, order.0, order.1).is_ok();
        if changed {
            // Release: pairs with the Acquire in `epoch`; who sees the new epoch sees who is gone.
            self.epoch.fetch_add(1, Ordering::Release);
        }
        changed
    }
}
