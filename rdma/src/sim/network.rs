//! Nodes, each with a cable to every other, and what goes wrong between them.

use std::{mem, time::Duration};

use super::{
    Clock, Random,
    model::{Direction, Model},
};
use crate::{Moment, NodeId};

/// What befalls frames by itself; chances are in millionths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A frame is lost.
    pub loss: u32,
    /// A frame arrives twice.
    pub duplication: u32,
    /// A few bits of a frame are turned over, or its end is missing.
    pub corruption: u32,
    /// A frame is overtaken by others.
    pub reordering: u32,
    /// How long a frame may be late, at most; one that is not overtaken holds up what follows.
    pub delay_max: Duration,
}

impl Faults {
    /// A wire that does what it should.
    pub const NONE: Self =
        Self { loss: 0, duplication: 0, corruption: 0, reordering: 0, delay_max: Duration::ZERO };
}

/// What happens at a node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// A frame has arrived.
    Frame {
        /// Who sent it.
        from: NodeId,
        /// Where it is.
        to: NodeId,
        /// What has arrived.
        bytes: Vec<u8>,
    },
    /// The time has come for which the node was to be woken.
    Wake {
        /// Who.
        node: NodeId,
        /// What it has called the occasion.
        tag: u64,
    },
}

impl Event {
    fn node(&self) -> NodeId {
        match *self {
            Self::Frame { to, .. } => to,
            Self::Wake { node, .. } => node,
        }
    }
}

#[derive(Debug, Default)]
struct Node {
    // Which life it is in: what was planned for another does not happen.
    life: u32,
    is_down: bool,
    is_paused: bool,
    // What happens when it goes on.
    waiting: Vec<Event>,
}

/// Nodes, and a cable between each two.
#[derive(Debug)]
pub struct Network {
    // With the life of the node for which an event is planned.
    clock: Clock<(u32, Event)>,
    random: Random,
    model: Model,
    faults: Faults,
    nodes: Vec<Node>,
    // By sender and receiver.
    directions: Vec<Direction>,
    is_cut: Vec<bool>,
}

impl Network {
    /// A network of `nodes` nodes; `seed` decides what befalls its frames.
    pub fn new(nodes: u16, seed: u64, model: Model, faults: Faults) -> Self {
        let pairs = usize::from(nodes) * usize::from(nodes);
        Self {
            clock: Clock::default(),
            random: Random::new(seed),
            model,
            faults,
            nodes: (0..nodes).map(|_| Node::default()).collect(),
            directions: vec![Direction::default(); pairs],
            is_cut: vec![false; pairs],
        }
    }

    /// The time.
    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    /// The numbers from which the network is made, for tests that draw from them too.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// From now on, this befalls frames.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Sends a frame; when the wire no longer reads `bytes`.
    pub fn send(&mut self, from: NodeId, to: NodeId, bytes: &[u8]) -> Moment {
        let now = self.now();
        let pair = self.pair(from, to);
        let (left, arrival) = self.directions[pair].send(now, bytes.len(), &self.model);
        if self.is_cut[pair] || self.nodes[from.index()].is_down {
            return left;
        }
        if !self.random.chance(self.faults.loss) {
            self.carry((from, to), arrival, bytes);
        }
        if self.random.chance(self.faults.duplication) {
            self.carry((from, to), arrival, bytes);
        }
        left
    }

    fn carry(&mut self, (from, to): (NodeId, NodeId), arrival: Moment, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        if self.random.chance(self.faults.corruption) {
            self.corrupt(&mut bytes);
        }
        let delay_max = u64::try_from(self.faults.delay_max.as_nanos()).unwrap_or(u64::MAX);
        let delay = Duration::from_nanos(self.random.below(delay_max.saturating_add(1).max(1)));
        let late = arrival.after(delay);
        let is_overtaken = self.random.chance(self.faults.reordering);
        let pair = self.pair(from, to);
        let arrival = if is_overtaken { late } else { self.directions[pair].in_order(late) };
        self.plan(arrival, Event::Frame { from, to, bytes });
    }

    fn corrupt(&mut self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        if self.random.chance(200_000) {
            let len = self.random.index(bytes.len());
            return bytes.truncate(len);
        }
        for _ in 0..=self.random.below(8) {
            let at = self.random.index(bytes.len());
            bytes[at] ^= 1 << self.random.below(8);
        }
    }

    /// Wakes `node` at `at`, unless it has crashed until then.
    pub fn wake(&mut self, node: NodeId, at: Moment, tag: u64) {
        self.plan(at, Event::Wake { node, tag });
    }

    /// When the next event was planned to happen.
    pub(super) fn next_at(&self) -> Option<Moment> {
        self.clock.next_at()
    }

    /// Goes on to the next event; `None` when nothing happens any more.
    pub fn next_event(&mut self) -> Option<(Moment, Event)> {
        loop {
            let planned = self.clock.advance()?;
            if let Some(event) = self.happen(planned) {
                return Some((self.clock.now(), event));
            }
        }
    }

    /// Goes on to the next event, if one happens until `deadline`; else to `deadline`.
    pub fn next_event_until(&mut self, deadline: Moment) -> Option<(Moment, Event)> {
        loop {
            let planned = self.clock.advance_until(deadline)?;
            if let Some(event) = self.happen(planned) {
                return Some((self.clock.now(), event));
            }
        }
    }

    /// The event, unless it happens never, or later.
    fn happen(&mut self, (life, event): (u32, Event)) -> Option<Event> {
        let node = &mut self.nodes[event.node().index()];
        if node.is_down || node.life != life {
            return None;
        }
        if node.is_paused {
            node.waiting.push(event);
            return None;
        }
        Some(event)
    }

    /// Loses what `from` sends to `to`, until it is mended. What is under way arrives.
    pub fn cut(&mut self, from: NodeId, to: NodeId) {
        let pair = self.pair(from, to);
        self.is_cut[pair] = true;
    }

    /// Carries frames from `from` to `to` again.
    pub fn mend(&mut self, from: NodeId, to: NodeId) {
        let pair = self.pair(from, to);
        self.is_cut[pair] = false;
    }

    /// Nothing happens at `node` until it goes on; then, all that would have.
    pub fn pause(&mut self, node: NodeId) {
        self.nodes[node.index()].is_paused = true;
    }

    /// Whether `node` is up, and not paused.
    pub fn is_running(&self, node: NodeId) -> bool {
        let node = &self.nodes[node.index()];
        !(node.is_down || node.is_paused)
    }

    /// `node` goes on.
    pub fn go_on(&mut self, node: NodeId) {
        self.nodes[node.index()].is_paused = false;
        for event in mem::take(&mut self.nodes[node.index()].waiting) {
            let now = self.now();
            self.plan(now, event);
        }
    }

    /// `node` is gone, and all that was on the way to it. What it has sent arrives.
    pub fn crash(&mut self, node: NodeId) {
        let place = &mut self.nodes[node.index()];
        *place = Node { life: place.life + 1, is_down: true, ..Node::default() };
    }

    /// `node` begins a new life, of which nothing is planned.
    pub fn restart(&mut self, node: NodeId) {
        self.nodes[node.index()].is_down = false;
    }

    fn plan(&mut self, at: Moment, event: Event) {
        let life = self.nodes[event.node().index()].life;
        self.clock.plan(at, (life, event));
    }

    fn pair(&self, from: NodeId, to: NodeId) -> usize {
        from.index() * self.nodes.len() + to.index()
    }
}

#[cfg(test)]
mod tests;
