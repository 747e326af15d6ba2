//! Nodes that do everything a cluster does, over a simulated network.
//!
//! Between events nothing happens: a frame arrives, a link has waited long enough, a sign of life
//! is due. Whatever a node does by itself, such as serving its peers, it does then. What its
//! program does is done by the caller, between any two steps.

use std::{
    iter,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use super::{
    Event, Faults, Model, Network,
    cable::{self, World},
    node::Node,
    occasion::Occasion,
};
use crate::{
    Completion, Error, Mapping, Moment, NodeId, Presence, Region, Request, Result,
    links::{BEAT, SILENCE},
    paths::LINGER,
    roster::Roster,
    wires::Arrived,
};

/// A cluster in one process, with virtual time and a seed.
#[derive(Debug)]
pub struct Cluster {
    world: Arc<Mutex<World>>,
    model: Model,
    // By number; `None` for those that are down.
    nodes: Vec<Option<Node>>,
    // Grows whenever nodes begin anew.
    membership: u16,
}

impl Cluster {
    /// How long after a node has died, or was cut off, every other knows of it at the latest;
    /// cables that lose much take a little longer.
    pub const LIVENESS: Duration = SILENCE.saturating_add(BEAT.saturating_mul(2));

    /// A cluster of `nodes` nodes, all of them up; `seed` decides what befalls their frames.
    pub fn new(nodes: u16, seed: u64, model: Model, faults: Faults) -> Result<Self> {
        let network = Network::new(nodes, seed, model, faults);
        let world = Arc::new(Mutex::new(World::new(network, nodes)));
        let nodes = (0..nodes).map(|_| None).collect();
        let mut this = Self { world, model, nodes, membership: 0 };
        this.renew()?;
        Ok(this)
    }

    /// The time.
    pub fn now(&self) -> Moment {
        self.world().network.now()
    }

    /// Nodes in the cluster.
    pub fn nodes(&self) -> u16 {
        u16::try_from(self.nodes.len()).expect("nodes are numbered by u16")
    }

    /// Goes on to the next event, if one happens until `deadline`; else to `deadline`. Whether one
    /// has happened.
    pub fn step(&mut self, deadline: Moment) -> bool {
        let event = self.world().network.next_event_until(deadline);
        let (node, is_up) = match event {
            None => return false,
            Some((_, Event::Frame { from, to, bytes })) => {
                (to, self.up(to).is_none_or(|node| node.receive(from, bytes)))
            }
            Some((_, Event::Wake { node, tag })) => {
                let occasion = Occasion::from_tag(tag).expect("nodes are woken for a reason");
                (node, self.up(node).is_none_or(|node| node.attend(occasion)))
            }
        };
        if !is_up {
            self.crash(node);
        }
        true
    }

    /// Goes on until `is_done`, or until `deadline`; whether it is done.
    pub fn run_until(
        &mut self,
        deadline: Moment,
        is_done: &mut dyn FnMut(&mut Self) -> bool,
    ) -> bool {
        loop {
            if is_done(self) {
                return true;
            }
            if !self.step(deadline) {
                return is_done(self);
            }
        }
    }

    /// From now on, this befalls frames.
    pub fn set_faults(&mut self, faults: Faults) {
        self.world().network.set_faults(faults);
    }

    /// Loses what `from` sends to `to`, until it is mended.
    pub fn cut(&mut self, from: NodeId, to: NodeId) {
        self.world().network.cut(from, to);
    }

    /// Carries frames from `from` to `to` again.
    pub fn mend(&mut self, from: NodeId, to: NodeId) {
        self.world().network.mend(from, to);
    }

    /// Nothing happens at `node` until it goes on; then, all that would have.
    pub fn pause(&mut self, node: NodeId) {
        self.world().network.pause(node);
    }

    /// `node` goes on.
    pub fn go_on(&mut self, node: NodeId) {
        self.world().network.go_on(node);
    }

    /// `node` dies; what it has sent arrives.
    pub fn crash(&mut self, node: NodeId) {
        self.world().network.crash(node);
        self.nodes[node.index()] = None;
    }

    /// `node` begins a new life. Those who knew it in an older one hear nothing of it, nor does it
    /// of them.
    pub fn restart(&mut self, node: NodeId) -> Result {
        self.crash(node);
        self.membership += 1;
        self.begin(node)
    }

    /// All nodes begin anew, with each other. What is under way between them arrives, late.
    pub fn renew(&mut self) -> Result {
        self.membership += 1;
        NodeId::all(self.nodes()).try_for_each(|node| self.begin(node))
    }

    fn begin(&mut self, node: NodeId) -> Result {
        self.world().network.restart(node);
        let nodes = (node, self.nodes());
        let made = Node::new(&self.world, nodes, self.membership, self.model.window)?;
        self.nodes[node.index()] = Some(made);
        Ok(())
    }

    /// `node` says goodbye, and is gone when the others have heard it.
    pub fn leave(&mut self, node: NodeId) {
        if !self.up(node).is_none_or(|node| node.leave(LINGER)) {
            self.crash(node);
        }
    }

    /// Whether `node` is up, and not paused.
    pub fn is_running(&self, node: NodeId) -> bool {
        self.world().network.is_running(node)
    }

    /// Lets every peer of `node` read and write `memory`; see
    /// [`Fabric::register`](crate::Fabric::register).
    pub fn register(&mut self, node: NodeId, memory: Arc<Mapping>) -> Result<Region> {
        self.up(node).ok_or_else(|| is_down(node))?.register(memory)
    }

    /// Bytes of a region of `peer`, if `node` has heard of it.
    pub fn region_len(&self, node: NodeId, peer: NodeId, region: Region) -> Option<u64> {
        self.nodes[node.index()].as_ref()?.region_len(peer, region)
    }

    /// Starts the requests of `batch` at `node`; see [`Fabric::post`](crate::Fabric::post).
    ///
    /// # Safety
    ///
    /// As for [`Fabric::post`](crate::Fabric::post), or until the node is down or begins anew.
    pub unsafe fn post(&mut self, node: NodeId, batch: &[Request]) -> Result<usize> {
        let place = self.up(node).ok_or_else(|| is_down(node))?;
        // SAFETY: passed on to the caller.
        let is_refused = |request| !unsafe { place.post(request) };
        let count = batch.iter().position(is_refused).unwrap_or(batch.len());
        place.set_timers();
        Ok(count)
    }

    /// Hands what has completed at `node`, and what has come, to `sink`; how many those were.
    pub fn poll(&mut self, node: NodeId, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        self.up(node).map_or(0, |node| node.poll(sink))
    }

    /// A number that grows whenever `node` loses another.
    pub fn epoch(&self, node: NodeId) -> u64 {
        self.nodes[node.index()].as_ref().map_or(0, Node::epoch)
    }

    /// Whether `peer` is there, as `node` sees it.
    pub fn presence(&self, node: NodeId, peer: NodeId) -> Presence {
        let node = self.nodes[node.index()].as_ref();
        node.map_or(Presence::Died, |node| node.presence(peer))
    }

    /// Whom `node` takes for being there, while it is up itself.
    pub(super) fn roster(&self, node: NodeId) -> Option<&Arc<Roster>> {
        self.nodes[node.index()].as_ref().map(Node::roster)
    }

    /// When the next event was planned to happen; `None` where no node is up.
    pub(super) fn next_at(&self) -> Option<Moment> {
        self.nodes.iter().flatten().next()?;
        self.world().network.next_at()
    }

    /// Whether a poll of `node` would find something.
    pub(super) fn has_arrived(&self, node: NodeId) -> bool {
        self.nodes[node.index()].as_ref().is_some_and(Node::has_arrived)
    }

    /// Whether a queue of messages of `node` that was full has room again.
    pub(super) fn has_room_again(&self, node: NodeId) -> bool {
        self.nodes[node.index()].as_ref().is_some_and(Node::has_room_again)
    }

    /// Whether there is something for which the program of `node` may wait, since this was last
    /// asked; such as the end of the node.
    pub(super) fn has_news(&mut self, node: NodeId) -> bool {
        self.up(node).is_none_or(Node::has_news)
    }

    /// What a poll of `node` would hand out.
    pub(super) fn take_arrived(&mut self, node: NodeId) -> Vec<Arrived> {
        let mut node = self.up(node);
        iter::from_fn(|| node.as_mut()?.take_arrived()).collect()
    }

    fn up(&mut self, node: NodeId) -> Option<&mut Node> {
        self.nodes[node.index()].as_mut()
    }

    fn world(&self) -> MutexGuard<'_, World> {
        cable::lock(&self.world)
    }
}

fn is_down(node: NodeId) -> Error {
    Error::PeerLost { node, epoch: 0 }
}

#[cfg(all(test, not(loom)))]
mod tests;
