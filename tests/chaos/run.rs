//! One run: a cluster, its programs and its fate, all from one seed.

use std::{collections::HashSet, mem, sync::Arc, time::Duration};

use pangea_rdma::{
    Mapping, Moment, NodeId, Presence,
    sim::{Clock, Cluster, Random},
};

use crate::{
    fate::{self, Fate, Misfortune, within},
    ledger::{Ledger, REGION_LEN},
    program::{Program, REGION},
};

/// Nodes of the largest cluster.
const NODES_MAX: u16 = 5;
/// Operations of a node.
const BUDGET: u64 = 40;
/// How long nodes may take to know of each other's regions, whatever befalls frames.
const START: Duration = Duration::from_secs(2);
/// How long what was posted last may take, when nothing is wrong any more but frames.
const SETTLE: Duration = Duration::from_secs(2);
/// How long what is late is waited for.
const LATE: Duration = Duration::from_millis(20);
/// Between two turns of a program, at most: when it is busy, and when it waits.
const BUSY_PAUSE: Duration = Duration::from_micros(60);
const IDLE_PAUSE: Duration = Duration::from_millis(20);

/// What happens next, but for what the cluster does by itself.
enum Action {
    Turn(NodeId),
    Misfortune(Misfortune),
}

/// What the runs have come to.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) runs: u64,
    pub(crate) events: u64,
    pub(crate) losses: u64,
    pub(crate) renewals: u64,
}

/// Memory that runs use one after the other.
pub(crate) fn memories() -> Vec<Arc<Mapping>> {
    let memory = |_| Arc::new(Mapping::new(REGION_LEN).expect("there is memory"));
    (0..NODES_MAX).map(memory).collect()
}

struct Run<'a> {
    cluster: Cluster,
    memories: &'a [Arc<Mapping>],
    random: Random,
    ledger: Ledger,
    programs: Vec<Program>,
    agenda: Clock<Action>,
    fate: Fate,
    // By node: the epoch that was seen last.
    epochs: Vec<u64>,
    // Pairs of nodes of which the first has lost the second.
    lost: HashSet<(NodeId, NodeId)>,
}

/// Does what a seed says, and checks that all that must hold does.
pub(crate) fn run(seed: u64, memories: &[Arc<Mapping>], tally: &mut Tally) {
    let mut random = Random::new(seed);
    let nodes = 2 + u16::try_from(random.below(u64::from(NODES_MAX) - 1)).expect("few nodes");
    let (model, faults) = (fate::model(&mut random), fate::faults(&mut random));
    let cluster = Cluster::new(nodes, random.draw(), model, faults).expect("a cluster can be made");
    let mut run = Run {
        cluster,
        memories: &memories[..usize::from(nodes)],
        random,
        ledger: Ledger::new(nodes),
        programs: Vec::new(),
        agenda: Clock::default(),
        fate: Fate::default(),
        epochs: vec![1; usize::from(nodes)],
        lost: HashSet::new(),
    };
    run.begin();
    run.fate = Fate::draw(nodes, run.cluster.now(), &mut run.random);
    for &(at, misfortune) in &run.fate.misfortunes {
        run.agenda.plan(at, Action::Misfortune(misfortune));
        tally.renewals += u64::from(matches!(misfortune, Misfortune::Renew));
    }
    tally.events += run.go();
    run.check();
    tally.runs += 1;
    tally.losses += run.lost.len() as u64;
}

impl Run<'_> {
    fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        NodeId::all(self.cluster.nodes())
    }

    /// Has all nodes register their memory, which is empty, and start their programs.
    fn begin(&mut self) {
        self.ledger = Ledger::new(self.cluster.nodes());
        self.programs.clear();
        for (node, memory) in self.nodes().zip(self.memories) {
            memory.write(0, &[0; REGION_LEN]).expect("a region is as long as it is");
            let region = self.cluster.register(node, memory.clone()).expect("the node is up");
            assert_eq!(region, REGION);
            let budget = u32::try_from(self.random.below(BUDGET)).expect("a small number");
            self.programs.push(Program::new(node, self.cluster.nodes(), budget));
        }
        let deadline = self.cluster.now().after(START);
        let nodes: Vec<NodeId> = self.nodes().collect();
        let all_know = self.cluster.run_until(deadline, &mut |cluster| {
            let knows = |node: NodeId, peer| {
                node == peer || cluster.region_len(node, peer, REGION).is_some()
            };
            nodes.iter().all(|&node| nodes.iter().all(|&peer| knows(node, peer)))
        });
        assert!(all_know, "all know of all regions");
    }

    /// Goes on until all programs are over; how many events that were.
    fn go(&mut self) -> u64 {
        let (start, end) = (self.cluster.now(), self.fate.end());
        self.nodes().for_each(|node| self.agenda.plan(start, Action::Turn(node)));
        let deadline = end.max(start).after(Cluster::LIVENESS + SETTLE);
        let mut events = 0;
        while self.agenda.now() <= end || !self.is_over() {
            let action = self.agenda.advance().expect("turns are planned");
            let now = self.agenda.now();
            events += self.pass(now);
            match action {
                Action::Misfortune(misfortune) => self.befall(misfortune),
                Action::Turn(node) => self.turn(node),
            }
            assert!(now < deadline, "all has ended, and who has died is known to have");
        }
        // What is late may still come.
        events + self.pass(self.cluster.now().after(LATE))
    }

    /// Lets happen what does until `at`.
    fn pass(&mut self, at: Moment) -> u64 {
        let mut events = 0;
        while self.cluster.step(at) {
            events += 1;
            self.note_losses();
        }
        events
    }

    /// Nodes that have not died.
    fn lives(&self) -> Vec<NodeId> {
        self.nodes().filter(|node| !self.fate.dead.contains(node)).collect()
    }

    /// Whether all has ended, come, or been lost.
    fn is_over(&self) -> bool {
        let lives = self.lives();
        let has_lost = |one: NodeId, other: NodeId| self.lost.contains(&(one, other));
        let is_known = |&dead: &NodeId| lives.iter().all(|&node| has_lost(node, dead));
        let is_settled = |source: NodeId, target: NodeId| {
            let is_lost = has_lost(source, target) || has_lost(target, source);
            is_lost || self.ledger.is_settled(source, target)
        };
        self.programs.iter().all(Program::is_over)
            && self.fate.dead.iter().all(is_known)
            && lives.iter().all(|&one| lives.iter().all(|&other| is_settled(one, other)))
    }

    fn note_losses(&mut self) {
        for node in self.nodes() {
            let epoch = self.cluster.epoch(node);
            if epoch == mem::replace(&mut self.epochs[node.index()], epoch) {
                continue;
            }
            for peer in self.nodes() {
                let is_lost = self.cluster.presence(node, peer) == Presence::Died;
                if is_lost && self.lost.insert((node, peer)) {
                    let mut both = [node, peer].into_iter();
                    let is_fair = both.any(|node| self.fate.suspects.contains(&node));
                    assert!(is_fair, "{node} has lost {peer}, which nothing has befallen");
                    self.ledger.freeze(&self.memories[node.index()], node, peer);
                }
            }
        }
    }

    fn befall(&mut self, misfortune: Misfortune) {
        misfortune.befall(&mut self.cluster);
        match misfortune {
            Misfortune::Crash(node) => self.programs[node.index()].die(&mut self.ledger),
            Misfortune::Renew => self.begin(),
            _ => {}
        }
    }

    fn turn(&mut self, node: NodeId) {
        let mut has_posted = false;
        if self.cluster.is_running(node) && !self.fate.dead.contains(&node) {
            let (memory, program) =
                (&self.memories[node.index()], &mut self.programs[node.index()]);
            let Self { cluster, ledger, random, .. } = self;
            has_posted = program.turn(cluster, ledger, memory, random);
        }
        let soon = has_posted && !self.random.chance(50_000);
        let pause = within(if soon { BUSY_PAUSE } else { IDLE_PAUSE }, &mut self.random);
        self.agenda.plan(self.cluster.now().after(pause), Action::Turn(node));
    }

    /// Looks at what has come late, and at the memory of all that are there.
    fn check(&mut self) {
        for node in self.lives() {
            self.programs[node.index()].poll(&mut self.cluster, &mut self.ledger);
            self.ledger.check_home(&self.memories[node.index()], node);
        }
        assert!(self.is_over(), "what comes late is not more than there was");
    }
}
