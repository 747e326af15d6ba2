//! What nodes make of their faults, one at a time.

use std::ptr::NonNull;

use super::*;
use crate::{MESSAGE_LEN_MAX, MESSAGES_MAX, Op, RemoteAddr, Token};

const A: NodeId = NodeId::new(0);
const B: NodeId = NodeId::new(1);
const C: NodeId = NodeId::new(2);
const REGION: Region = Region(1);
/// What a frame takes at most, and an answer to it.
const SOON: Duration = Duration::from_millis(1);

/// Nodes that have each registered memory, and know of each other's.
struct Lab {
    cluster: Cluster,
    memory: Vec<Arc<Mapping>>,
}

impl Lab {
    fn new(nodes: u16, faults: Faults) -> Self {
        let cluster = Cluster::new(nodes, 1, Model::THUNDERBOLT_5, faults).unwrap();
        let memory = (0..nodes).map(|_| Arc::new(Mapping::new(1 << 16).unwrap())).collect();
        let mut this = Self { cluster, memory };
        this.register();
        this
    }

    fn register(&mut self) {
        let nodes: Vec<NodeId> = NodeId::all(self.cluster.nodes()).collect();
        for &node in &nodes {
            let memory = self.memory[node.index()].clone();
            assert_eq!(self.cluster.register(node, memory).unwrap(), REGION);
        }
        self.until(Duration::from_secs(1), |cluster| {
            let knows = |node, peer| {
                node == peer || cluster.region_len(node, peer, REGION) == Some(1 << 16)
            };
            nodes.iter().all(|&node| nodes.iter().all(|&peer| knows(node, peer)))
        });
    }

    /// Goes on until `is_done`, which must be within `limit`.
    fn until(&mut self, limit: Duration, mut is_done: impl FnMut(&mut Cluster) -> bool) {
        let deadline = self.cluster.now().after(limit);
        assert!(self.cluster.run_until(deadline, &mut is_done), "it is done within {limit:?}");
    }

    /// Goes on for a time.
    fn pass(&mut self, time: Duration) {
        let deadline = self.cluster.now().after(time);
        self.cluster.run_until(deadline, &mut |_| false);
    }

    fn post(&mut self, node: NodeId, token: u64, op: Op) {
        let request = Request { token: Token(token), op };
        // SAFETY: the tests keep all memory that they name until the lab is gone.
        assert_eq!(unsafe { self.cluster.post(node, &[request]) }.unwrap(), 1);
    }

    /// Does `op` at `node`, within `limit`.
    fn run(&mut self, node: NodeId, op: Op, limit: Duration) -> Result<u64> {
        self.post(node, 7, op);
        let mut ended = None;
        self.until(limit, |cluster| {
            cluster.poll(node, &mut |completion| {
                let Completion::Done { token: Token(7), result } = completion else {
                    panic!("{completion:?}");
                };
                assert!(ended.replace(result).is_none(), "a request completes exactly once");
            });
            ended.is_some()
        });
        ended.unwrap()
    }

    fn add(&mut self, node: NodeId, home: NodeId, limit: Duration) -> Result<u64> {
        self.run(node, Op::FetchAdd { target: at(home, 0), addend: 1 }, limit)
    }

    fn word(&self, home: NodeId) -> u64 {
        self.memory[home.index()].word(0).unwrap().load(std::sync::atomic::Ordering::SeqCst)
    }

    /// What has come at `node`: messages, and requests that ended.
    fn heard(&mut self, node: NodeId) -> Vec<(NodeId, Vec<u8>)> {
        let mut heard = Vec::new();
        self.cluster.poll(node, &mut |completion| match completion {
            Completion::Message { source, message } => heard.push((source, message.to_vec())),
            Completion::Done { result, .. } => assert_eq!(result.unwrap(), 0),
        });
        heard
    }
}

fn at(node: NodeId, offset: u64) -> RemoteAddr {
    RemoteAddr { node, region: REGION, offset }
}

fn send(target: NodeId, message: &'static [u8]) -> Op {
    Op::Send { target, message: NonNull::from(message) }
}

#[test]
fn what_is_written_is_read_by_all_and_by_its_home() {
    let mut lab = Lab::new(3, Faults { loss: 100_000, reordering: 100_000, ..Faults::NONE });
    for home in [A, B] {
        let mut bytes: Vec<u8> = (0..50_001).map(|at| (at % 251) as u8).collect();
        let source = NonNull::from(&mut bytes[..]);
        lab.run(A, Op::Write { source, target: at(home, 77) }, BEAT).unwrap();
        for reader in [A, B, C] {
            let mut seen = vec![0; bytes.len()];
            let target = NonNull::from(&mut seen[..]);
            lab.run(reader, Op::Read { source: at(home, 77), target }, BEAT).unwrap();
            assert!(seen == bytes);
        }
    }
}

#[test]
fn operations_take_the_time_of_the_model() {
    let mut lab = Lab::new(2, Faults::NONE);
    let before = lab.cluster.now();
    lab.add(A, B, SOON).unwrap();
    let trip = lab.cluster.now().since(before);
    let model = Model::THUNDERBOLT_5;
    let least = 2 * (model.cost + model.latency);
    assert!(trip > least && trip < least + Duration::from_nanos(100), "{trip:?}");
    let before = lab.cluster.now();
    lab.add(A, A, SOON).unwrap();
    assert_eq!(lab.cluster.now(), before, "what is at home takes none");
}

#[test]
fn messages_come_whole_and_in_order_to_others_and_to_oneself() {
    let mut lab = Lab::new(2, Faults { duplication: 300_000, ..Faults::NONE });
    for target in [A, B] {
        for message in [&b"one"[..], b"", &[3; MESSAGE_LEN_MAX]] {
            lab.post(A, 1, Op::Send { target, message: NonNull::from(message) });
        }
        lab.pass(BEAT);
        let expected = [b"one".to_vec(), vec![], vec![3; MESSAGE_LEN_MAX]];
        assert_eq!(lab.heard(target), expected.map(|message| (A, message)));
    }
    let long = Op::Send { target: A, message: NonNull::from(&[0; MESSAGE_LEN_MAX + 1][..]) };
    lab.heard(A);
    assert!(matches!(lab.run(A, long, SOON), Err(Error::OutOfBounds { .. })));
}

#[test]
fn messages_that_nobody_takes_are_few_and_the_rest_follows_when_they_are_taken() {
    let mut lab = Lab::new(2, Faults { loss: 100_000, ..Faults::NONE });
    for target in [B, A] {
        let request = Request { token: Token(1), op: send(target, b"more") };
        let mut posted = 0;
        let mut fill = |lab: &mut Lab| {
            let before = posted;
            // SAFETY: the message is a constant.
            while unsafe { lab.cluster.post(A, &[request]) }.unwrap() == 1 {
                posted += 1;
                if posted % 100 == 0 {
                    lab.pass(BEAT);
                }
            }
            lab.pass(BEAT);
            posted - before
        };
        assert_eq!(fill(&mut lab), MESSAGES_MAX);
        if target == B {
            assert!(lab.heard(A).is_empty(), "but that all are sent");
            assert_eq!(lab.add(A, B, BEAT).unwrap(), 0, "what is no message goes on");
        }
        for _ in 0..3 {
            let taken = lab.heard(target).into_iter().filter(|heard| heard.0 == A).count();
            assert_eq!(taken, MESSAGES_MAX as usize);
            lab.pass(BEAT);
            lab.heard(A);
            assert_eq!(fill(&mut lab), MESSAGES_MAX);
        }
    }
}

#[test]
fn every_survivor_learns_of_a_crash_in_time_and_nothing_is_left_waiting() {
    let mut lab = Lab::new(4, Faults::NONE);
    lab.cluster.crash(B);
    for node in [A, C] {
        lab.post(node, 9, Op::FetchAdd { target: at(B, 0), addend: 1 });
    }
    let early = SILENCE - BEAT - SOON;
    lab.pass(early);
    for node in [A, C] {
        assert_eq!(lab.cluster.presence(node, B), Presence::Here, "it may be slow");
        assert_eq!(lab.cluster.poll(node, &mut |_| {}), 0);
    }
    let survivors = [A, C, NodeId::new(3)];
    lab.until(SILENCE + BEAT - early + SOON, |cluster| {
        survivors.iter().all(|&node| cluster.presence(node, B) == Presence::Died)
    });
    for node in [A, C] {
        let mut ended = 0;
        lab.cluster.poll(node, &mut |completion| {
            let Completion::Done { token: Token(9), result } = completion else { panic!() };
            assert!(matches!(result, Err(Error::PeerLost { node: B, epoch: 2 })), "{result:?}");
            ended += 1;
        });
        assert_eq!(ended, 1);
        let error = lab.add(node, B, Duration::ZERO).unwrap_err();
        assert!(matches!(error, Error::PeerLost { node: B, .. }));
    }
    lab.add(A, C, SOON).unwrap();
}

#[test]
fn a_short_cut_loses_nothing_and_a_long_one_both_ends() {
    let mut lab = Lab::new(3, Faults::NONE);
    lab.cluster.cut(A, B);
    lab.post(A, 7, Op::FetchAdd { target: at(B, 0), addend: 1 });
    lab.pass(SILENCE - BEAT);
    assert_eq!(lab.word(B), 0);
    lab.cluster.mend(A, B);
    lab.pass(BEAT);
    assert_eq!((lab.word(B), lab.heard(A)), (1, vec![]), "it was done, once");
    let is_here = |cluster: &Cluster, node, peer| cluster.presence(node, peer) == Presence::Here;
    assert!(is_here(&lab.cluster, A, B) && is_here(&lab.cluster, B, A));

    lab.cluster.cut(A, B);
    lab.until(Cluster::LIVENESS, |cluster| !is_here(cluster, B, A) && !is_here(cluster, C, A));
    // It hears the others, but is heard by none: they have given up on it.
    lab.until(Cluster::LIVENESS, |cluster| !is_here(cluster, A, B) && !is_here(cluster, A, C));
    assert!(is_here(&lab.cluster, B, C) && is_here(&lab.cluster, C, B));
}

#[test]
fn who_is_lost_by_hearsay_is_not_heard_any_more() {
    let mut lab = Lab::new(3, Faults::NONE);
    lab.cluster.cut(B, A);
    lab.until(Cluster::LIVENESS, |cluster| cluster.presence(C, B) == Presence::Died);
    assert_eq!(lab.cluster.presence(B, C), Presence::Here, "it does not know");
    lab.post(B, 7, Op::FetchAdd { target: at(C, 0), addend: 1 });
    lab.post(B, 8, send(C, b"hello"));
    lab.pass(Cluster::LIVENESS);
    assert_eq!((lab.word(C), lab.heard(C)), (0, vec![]));
    assert_eq!(lab.cluster.presence(C, A), Presence::Here, "nor is what it says of others");
}

#[test]
fn who_hears_nobody_accuses_nobody() {
    let others = || NodeId::all(4).filter(|&node| node != A);
    for stagger in 0..8 {
        let mut lab = Lab::new(4, Faults::NONE);
        for peer in others() {
            // Some give their last sign of life before a beat of the deaf one, some after it.
            lab.pass(stagger * BEAT / 16);
            lab.cluster.cut(peer, A);
        }
        lab.pass(3 * Cluster::LIVENESS);
        for one in others() {
            assert_eq!(lab.cluster.presence(one, A), Presence::Died);
            for other in others() {
                let presence = lab.cluster.presence(one, other);
                assert_eq!(presence, Presence::Here, "{other} at {one}, {stagger}");
            }
        }
    }
}

#[test]
fn who_was_paused_complains_of_nobody() {
    let mut lab = Lab::new(3, Faults::NONE);
    lab.cluster.pause(B);
    lab.pass(SILENCE - BEAT);
    lab.cluster.go_on(B);
    lab.pass(BEAT);
    lab.cluster.pause(B);
    lab.pass(Cluster::LIVENESS);
    lab.cluster.go_on(B);
    lab.pass(SOON);
    assert_eq!(lab.cluster.presence(A, B), Presence::Died);
    assert_eq!(lab.cluster.presence(C, B), Presence::Died);
    assert_eq!(lab.cluster.presence(B, A), Presence::Here, "it has not looked for long");
    assert_eq!(lab.cluster.presence(A, C), Presence::Here);
    lab.pass(Cluster::LIVENESS);
    assert_eq!(lab.cluster.presence(B, A), Presence::Died);
}

#[test]
fn what_a_node_said_before_it_left_is_heard_and_nobody_waits_for_it() {
    let mut lab = Lab::new(3, Faults::NONE);
    lab.post(B, 1, send(A, b"last words"));
    lab.cluster.leave(B);
    lab.until(SOON, |cluster| !cluster.is_running(B));
    assert_eq!(lab.heard(A), [(B, b"last words".to_vec())]);
    for node in [A, C] {
        assert_eq!(lab.cluster.presence(node, B), Presence::Left);
    }
}

#[test]
fn a_node_of_a_new_life_is_a_stranger() {
    let mut lab = Lab::new(3, Faults::NONE);
    lab.cluster.restart(B).unwrap();
    let memory = lab.memory[B.index()].clone();
    lab.cluster.register(B, memory).unwrap();
    lab.pass(Cluster::LIVENESS);
    assert_eq!(lab.cluster.region_len(A, B, REGION), Some(1 << 16), "as of its old life");
    for (node, peer) in [(A, B), (C, B), (B, A), (B, C)] {
        assert_eq!(lab.cluster.presence(node, peer), Presence::Died);
    }
    assert_eq!(lab.cluster.presence(A, C), Presence::Here);
}

#[test]
fn what_comes_late_of_an_old_membership_changes_nothing() {
    let delay_max = Duration::from_millis(50);
    let mut lab = Lab::new(2, Faults { reordering: 1_000_000, delay_max, ..Faults::NONE });
    for token in 0..100 {
        lab.post(A, token, Op::FetchAdd { target: at(B, 0), addend: 1 });
    }
    lab.post(A, 100, send(B, b"old"));
    lab.cluster.renew().unwrap();
    lab.register();
    lab.pass(BEAT);
    assert_eq!((lab.word(B), lab.heard(B)), (0, vec![]));
    assert_eq!(lab.add(A, B, BEAT).unwrap(), 0);
}

#[test]
fn a_seed_decides_everything() {
    let history = |seed| {
        let faults = Faults { loss: 200_000, corruption: 100_000, ..Faults::NONE };
        let mut cluster = Cluster::new(3, seed, Model::INFINIBAND, faults).unwrap();
        let deadline = Moment::START.after(SILENCE);
        let mut moments = Vec::new();
        while cluster.step(deadline) {
            moments.push(cluster.now());
        }
        moments
    };
    assert_eq!(history(1), history(1));
    assert_ne!(history(1), history(2));
}

#[test]
fn a_node_that_is_down_does_nothing() {
    let mut lab = Lab::new(2, Faults::NONE);
    lab.cluster.crash(B);
    assert!(!lab.cluster.is_running(B));
    let memory = lab.memory[B.index()].clone();
    lab.cluster.register(B, memory).unwrap_err();
    // SAFETY: nothing is posted.
    unsafe { lab.cluster.post(B, &[]) }.unwrap_err();
    assert_eq!(lab.cluster.poll(B, &mut |_| {}), 0);
}
