//! Whoever sleeps is woken by what it waits for.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{
    cluster::Cluster,
    node::{Node, at},
    providers::Maker,
};
use crate::{Op, Presence};

/// Times that a node is woken. One that wakes by itself, at a sign of life or so, does not get
/// through in time.
const ROUNDS: u32 = 50;
/// What a round may take on average.
const PATIENCE: Duration = Duration::from_millis(100);

/// Does nothing for long enough that the other falls asleep.
fn linger(node: &Node) {
    node.fabric.wait_until(Instant::now() + Duration::from_millis(1), &mut || false);
}

/// Has two nodes wait for each other in turns, by `tell` and `hear`.
fn take_turns(make: Maker, tell: fn(&Node, u16, u64), hear: fn(&Node, u64)) {
    // With three, two are on one host where some are.
    let cluster = Cluster::new(make, 3, 4096);
    for pair in [[0, 1], [0, 2]] {
        let deadline = Instant::now() + ROUNDS * PATIENCE;
        thread::scope(|scope| {
            for (node, other, first) in [(pair[0], pair[1], true), (pair[1], pair[0], false)] {
                let node = &cluster[usize::from(node)];
                scope.spawn(move || {
                    for round in 1..=u64::from(ROUNDS) {
                        assert!(Instant::now() < deadline, "round {round}: nobody is woken");
                        if first {
                            linger(node);
                            tell(node, other, round);
                        }
                        hear(node, round);
                        if !first {
                            linger(node);
                            tell(node, other, round);
                        }
                    }
                });
            }
        });
        cluster[0].memory.write(0, &[0; 8]).unwrap();
    }
    assert_eq!(cluster[0].fabric.presence(cluster[1].fabric.node()), Presence::Here);
}

pub(super) fn a_signal_wakes_a_sleeper(make: Maker) {
    let tell = |node: &Node, other, round| {
        let signal = Op::Signal { target: at(other, 0), value: round };
        node.run(signal).unwrap();
    };
    take_turns(make, tell, |node, round| node.wait_until(&mut || node.own_word(0) == round));
}

pub(super) fn a_message_wakes_a_sleeper(make: Maker) {
    let tell = |node: &Node, other, round: u64| {
        node.start_send(other, &round.to_le_bytes()).finish().unwrap();
    };
    take_turns(make, tell, |node, round| assert_eq!(node.message().1, round.to_le_bytes()));
}
