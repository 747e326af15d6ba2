//! Simulated nodes for programs that are written for any fabric.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::{Cluster, Faults, Model, live::Live};
use crate::{
    Capabilities, Completion, Mapping, NodeId, PeerMemory, Presence, Region, Request, Result, Way,
    fabric::await_region,
    paths::LINGER,
    primitive::{AtomicU32, Ordering},
    roster::Roster,
    turn::Turn,
};

/// How long who drops a fabric waits for its node to have said goodbye, which takes [`LINGER`] at
/// most, in virtual time.
const GOODBYE: Duration = LINGER.saturating_mul(10);

/// A node's end of a simulated cluster, as a [`Fabric`](crate::Fabric).
///
/// The cluster goes on by itself, in virtual time, which passes as it likes: what happens soon
/// happens at once, and signs of life come ten times as often as between real nodes. A node serves
/// its peers even while its program does not poll.
///
/// What befalls frames follows from the seed and from the order in which threads post; so a run is
/// not repeated by its seed, as one of a [`Cluster`] is.
///
/// A node whose fabric is dropped says goodbye, and is gone when the others have heard it; dropped
/// by a panic, it has died.
#[derive(Debug)]
pub struct Fabric {
    node: NodeId,
    live: Arc<Live>,
    roster: Arc<Roster>,
    way: Way,
    // Set by `wake`, taken by `wait`.
    is_woken: AtomicU32,
    // Held while polling: what comes is handed out by one thread at a time, in order.
    polling: Turn<()>,
}

impl Fabric {
    /// The fabrics of a cluster of `nodes` nodes; `seed` decides what befalls their frames.
    pub fn all(nodes: u16, seed: u64, model: Model, faults: Faults) -> Result<Vec<Self>> {
        let live = Live::start(Cluster::new(nodes, seed, model, faults)?)?;
        let cluster = live.cluster();
        let fabric = |node| Self {
            node,
            live: live.clone(),
            roster: cluster.roster(node).expect("all nodes are up").clone(),
            way: describe(seed, &model, &faults),
            is_woken: AtomicU32::new(0),
            polling: Turn::new(()),
        };
        Ok(NodeId::all(nodes).map(fabric).collect())
    }
}

/// How nodes of a cluster reach each other.
fn describe(seed: u64, model: &Model, faults: &Faults) -> Way {
    let Model { latency, bandwidth, .. } = model;
    let (bandwidth, lost) = (bandwidth / 1_000_000, f64::from(faults.loss) / 10_000.0);
    let reason = format!(
        "in this process, {bandwidth} MB/s, {latency:?} away, {lost}% of frames lost, seed {seed}"
    );
    Way { name: "simulated".into(), reason: reason.into() }
}

impl crate::Fabric for Fabric {
    fn node(&self) -> NodeId {
        self.node
    }

    fn nodes(&self) -> u16 {
        self.roster.nodes()
    }

    fn capabilities(&self, peer: NodeId) -> Capabilities {
        let is_itself = peer == self.node;
        Capabilities { mapped: is_itself, one_sided: is_itself }
    }

    fn register(&self, memory: Arc<Mapping>) -> Result<Region> {
        self.live.change(|cluster| cluster.register(self.node, memory))
    }

    fn region(&self, peer: NodeId, region: Region, deadline: Instant) -> Result<PeerMemory> {
        await_region(self, (peer, region), deadline, &|| {
            self.live.cluster().region_len(self.node, peer, region)
        })
    }

    /// Does nothing, as no region of a peer can be mapped.
    fn attach(&self, _peer: NodeId, _region: Region, _memory: Arc<Mapping>) {}

    unsafe fn post(&self, batch: &[Request]) -> Result<usize> {
        let (posted, has_arrived) = self.live.change(|cluster| {
            // SAFETY: passed on to the caller; a fabric that is dropped takes its node down.
            let posted = unsafe { cluster.post(self.node, batch) };
            (posted, cluster.has_arrived(self.node))
        });
        if has_arrived {
            // What needs no peer has ended, and may be waited for by another thread.
            self.live.ring(self.node);
        }
        posted
    }

    fn poll(&self, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        let Some(_polling) = self.polling.take() else { return 0 };
        let (arrived, has_room) = self
            .live
            .change(|cluster| (cluster.take_arrived(self.node), cluster.has_room_again(self.node)));
        if has_room {
            // Another thread may wait for room at this node itself.
            self.live.ring(self.node);
        }
        let count = arrived.len();
        arrived.into_iter().for_each(|arrived| arrived.hand_to(sink));
        count
    }

    fn wait(&self, epoch: u64, deadline: Instant) -> bool {
        self.live.wait(self.node, deadline, &mut || {
            self.has_arrived()
                || self.live.cluster().has_room_again(self.node)
                || self.epoch() != epoch
                // Acquire: pairs with the Release in `wake`.
                || self.is_woken.swap(0, Ordering::Acquire) != 0
        })
    }

    fn wake(&self) {
        // Release: pairs with the Acquire in `wait`.
        self.is_woken.store(1, Ordering::Release);
        self.live.ring(self.node);
    }

    fn has_arrived(&self) -> bool {
        self.live.cluster().has_arrived(self.node)
    }

    fn wait_until(&self, deadline: Instant, ready: &mut dyn FnMut() -> bool) -> bool {
        self.live.wait(self.node, deadline, ready)
    }

    fn ring(&self, peer: NodeId) {
        self.live.ring(peer);
    }

    fn epoch(&self) -> u64 {
        self.roster.epoch()
    }

    fn presence(&self, peer: NodeId) -> Presence {
        self.roster.presence(peer)
    }

    fn way(&self, peer: NodeId) -> &Way {
        if peer == self.node { &Way::ITSELF } else { &self.way }
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        // A node that panics dies: it has not done what the others count on.
        if !thread::panicking() {
            self.live.change(|cluster| cluster.leave(self.node));
            let is_gone = &mut || !self.live.cluster().is_running(self.node);
            self.live.wait(self.node, Instant::now() + GOODBYE, is_gone);
        }
        // What was posted names memory that is the program's again.
        self.live.change(|cluster| cluster.crash(self.node));
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
