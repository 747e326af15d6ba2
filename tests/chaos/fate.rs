//! What befalls the nodes of a run, and when, from its seed.

use std::{collections::HashSet, time::Duration};

use pangea_rdma::{
    Moment, NodeId,
    sim::{Cluster, Faults, Model, Random},
};

/// Until when everything has begun to go wrong.
const BUSY: Duration = Duration::from_micros(400);
/// Shorter than the silence after which a node is lost, by more than it takes to hear of it.
const SHORT: Duration = Duration::from_millis(2200);
/// Longer than any node is waited for.
const LONG: Duration = Duration::from_secs(5);

/// Something that happens to the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Misfortune {
    Cut(NodeId, NodeId),
    Mend(NodeId, NodeId),
    Pause(NodeId),
    GoOn(NodeId),
    Crash(NodeId),
    Restart(NodeId),
    Renew,
}

/// All that happens in a run.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    /// In no order.
    pub(crate) misfortunes: Vec<(Moment, Misfortune)>,
    /// Who may be lost.
    pub(crate) suspects: HashSet<NodeId>,
    /// Who must be.
    pub(crate) dead: HashSet<NodeId>,
}

impl Fate {
    /// Up to three things that happen to `nodes` nodes.
    pub(crate) fn draw(nodes: u16, start: Moment, random: &mut Random) -> Self {
        let mut this = Self::default();
        if random.chance(100_000) {
            // Nothing else, as nobody of the old membership is there to be checked.
            this.add(start.after(within(BUSY, random)), Misfortune::Renew);
            return this;
        }
        for _ in 0..random.below(4) {
            let at = start.after(within(BUSY, random));
            let node = any(nodes, random);
            match random.below(8) {
                0..3 => this.cut(at, (node, any(nodes, random)), random),
                3..7 => {
                    let time = this.duration(&[node], random);
                    this.add(at, Misfortune::Pause(node));
                    this.add(at.after(time), Misfortune::GoOn(node));
                }
                _ => this.crash(at, node, random),
            }
        }
        this
    }

    /// When nothing more happens.
    pub(crate) fn end(&self) -> Moment {
        self.misfortunes.iter().map(|&(at, _)| at).max().unwrap_or_default()
    }

    fn crash(&mut self, at: Moment, node: NodeId, random: &mut Random) {
        self.suspects.insert(node);
        if self.dead.insert(node) {
            self.add(at, Misfortune::Crash(node));
            if random.chance(500_000) {
                self.add(at.after(within(LONG, random)), Misfortune::Restart(node));
            }
        }
    }

    fn cut(&mut self, at: Moment, (one, other): (NodeId, NodeId), random: &mut Random) {
        let time = self.duration(&[one, other], random);
        self.add(at, Misfortune::Cut(one, other));
        self.add(at.after(time), Misfortune::Mend(one, other));
        if random.chance(500_000) {
            self.add(at, Misfortune::Cut(other, one));
            self.add(at.after(time), Misfortune::Mend(other, one));
        }
    }

    /// How long something lasts that befalls `nodes`, who may be lost by it if it is long.
    fn duration(&mut self, nodes: &[NodeId], random: &mut Random) -> Duration {
        match random.below(8) {
            0 => {
                self.suspects.extend(nodes);
                LONG
            }
            1 if self.misfortunes.is_empty() => within(SHORT, random),
            _ => within(Duration::from_millis(2), random),
        }
    }

    fn add(&mut self, at: Moment, what: Misfortune) {
        self.misfortunes.push((at, what));
    }
}

impl Misfortune {
    /// Has it happen; a renewal is the caller's.
    pub(crate) fn befall(self, cluster: &mut Cluster) {
        match self {
            Self::Cut(from, to) => cluster.cut(from, to),
            Self::Mend(from, to) => cluster.mend(from, to),
            Self::Pause(node) => cluster.pause(node),
            Self::GoOn(node) => cluster.go_on(node),
            Self::Crash(node) => cluster.crash(node),
            Self::Restart(node) => cluster.restart(node).expect("a node can be made"),
            Self::Renew => cluster.renew().expect("nodes can be made"),
        }
    }
}

/// What befalls frames.
pub(crate) fn faults(random: &mut Random) -> Faults {
    let mut chance = |max: u64| {
        let chance = if random.chance(500_000) { random.below(max) } else { 0 };
        u32::try_from(chance).expect("a chance is small")
    };
    Faults {
        loss: chance(200_000),
        duplication: chance(300_000),
        corruption: chance(50_000),
        reordering: chance(300_000),
        delay_max: within(Duration::from_micros(100), random),
    }
}

/// A cable.
pub(crate) fn model(random: &mut Random) -> Model {
    let model = if random.chance(500_000) { Model::THUNDERBOLT_5 } else { Model::INFINIBAND };
    Model { window: 1 << random.below(5), ..model }
}

/// Any of the nodes.
pub(crate) fn any(nodes: u16, random: &mut Random) -> NodeId {
    NodeId::new(u16::try_from(random.below(u64::from(nodes))).expect("less than a u16"))
}

/// Some time, and less than `limit`.
pub(crate) fn within(limit: Duration, random: &mut Random) -> Duration {
    let limit = u64::try_from(limit.as_nanos()).expect("a short time");
    Duration::from_nanos(random.below(limit))
}
