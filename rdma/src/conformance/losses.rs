//! Nodes that die or leave: each request ends, once, and the others go on.

use std::thread;

use super::{
    cluster::Cluster,
    lent::pattern,
    node::{Node, Pending, at, soon},
    providers::Maker,
};
use crate::{Error, NodeId, Op, Presence};

const LOST: NodeId = NodeId::new(1);

/// Starts the `number`th request of a mixture to node 1.
fn start(node: &Node, number: u64) -> Pending<'_> {
    match number % 4 {
        0 => node.start_read(at(1, number), 5000),
        1 => node.start_write(at(1, number), &pattern(number, 5000)),
        2 => node.start_word(Op::FetchAdd { target: at(1, 0), addend: 1 }),
        _ => node.start_write(at(1, number), &[1; 8]),
    }
}

/// Checks that requests to node 1 fail, and that node 2 is still there.
fn check(node: &Node, presence: Presence) {
    node.wait_until(&mut || node.fabric.is_lost(LOST));
    assert_eq!(node.fabric.presence(LOST), presence);
    assert!(node.fabric.epoch() > 0);
    let ended = (0..4).map(|number| start(node, number).finish());
    let signal = node.run(Op::Signal { target: at(1, 0), value: 1 });
    let send = node.start_send(1, b"are you there?").finish();
    for result in ended.chain([signal, send]) {
        let is_right = matches!(result, Err(Error::PeerLost { node: LOST, epoch }) if epoch > 0);
        assert!(is_right, "{result:?}");
    }
    node.run(Op::FetchAdd { target: at(2, 0), addend: 1 }).unwrap();
}

pub(super) fn a_node_that_dies_ends_each_request_once(make: Maker) {
    for _ in 0..5 {
        let mut cluster = Cluster::new(make, 3, 1 << 20);
        let mut lost = cluster.take(1);
        lost.pause();
        let under_way: Vec<_> = (0..256).map(|number| start(&cluster[0], number)).collect();
        lost.die();
        for pending in under_way {
            match pending.finish() {
                Ok(_) | Err(Error::PeerLost { node: LOST, .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        check(&cluster[0], Presence::Died);
        // Whoever had nothing to do with it hears of it too.
        check(&cluster[2], Presence::Died);
    }
}

pub(super) fn what_was_said_before_leaving_is_heard(make: Maker) {
    let mut cluster = Cluster::new(make, 3, 1 << 20);
    let leaving = cluster.take(1);
    for number in 0..20 {
        leaving.node.start_send(0, &pattern(number, 50)).finish().unwrap();
        leaving.node.write(at(0, number * 100), &pattern(number, 100));
    }
    leaving.leave();
    for number in 0..20 {
        assert_eq!(cluster[0].message(), (LOST, pattern(number, 50)));
        assert!(cluster[0].own(number * 100, 100) == pattern(number, 100));
    }
    check(&cluster[0], Presence::Left);
}

pub(super) fn a_loss_wakes_who_waits(make: Maker) {
    let mut cluster = Cluster::new(make, 3, 4096);
    let lost = cluster.take(1);
    let others = [&cluster[0], &cluster[2]];
    thread::scope(|scope| {
        let waiting = others.map(|node| {
            let ready = move || node.fabric.is_lost(LOST);
            scope.spawn(move || node.fabric.wait_until(soon(), &mut { ready }))
        });
        lost.die();
        assert!(waiting.into_iter().all(|thread| thread.join().unwrap()));
    });
}
