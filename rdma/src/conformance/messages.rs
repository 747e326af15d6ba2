//! Messages: whole, once, and in the order in which they were sent.

use std::{collections::VecDeque, thread, time::Instant};

use super::{
    cluster::Cluster,
    lent::pattern,
    node::{Node, soon},
    providers::Maker,
};
use crate::{
    MESSAGE_LEN_MAX, NodeId,
    primitive::{AtomicU32, Ordering},
};

/// Sends the `number`th message to `target`, and forgets the oldest of those under way.
fn send_all(node: &Node, count: u64, targets: u16, len: &dyn Fn(u64) -> usize) {
    let mut under_way = VecDeque::new();
    for number in 0..count {
        for target in 0..targets {
            let message = pattern(number, len(number));
            under_way.push_back(node.start_send(target, &message));
        }
        while under_way.len() > 300 {
            under_way.pop_front().unwrap().finish().unwrap();
        }
    }
    under_way.into_iter().for_each(|sent| _ = sent.finish().unwrap());
}

/// Checks that `count` messages come from each of `sources` nodes.
fn receive_all(node: &Node, count: u64, sources: u16, len: &dyn Fn(u64) -> usize) {
    let mut next = vec![0; usize::from(sources)];
    for _ in 0..count * u64::from(sources) {
        let (source, message) = node.message();
        let number = &mut next[source.index()];
        assert!(message == pattern(*number, len(*number)), "message {number} of {source}");
        *number += 1;
    }
    assert!(next.into_iter().all(|number| number == count));
}

pub(super) fn messages_of_every_length_come_whole_and_in_order(make: Maker) {
    const COUNT: u64 = MESSAGE_LEN_MAX as u64 + 1;
    let len = |number| usize::try_from(number).unwrap();
    let cluster = Cluster::new(make, 2, 4096);
    thread::scope(|scope| {
        scope.spawn(|| send_all(&cluster[0], COUNT, 2, &len));
        scope.spawn(|| receive_all(&cluster[1], COUNT, 1, &len));
        // To oneself, too.
        receive_all(&cluster[0], COUNT, 1, &len);
    });
}

pub(super) fn everybody_hears_everybody_in_order(make: Maker) {
    // With each of three to each of three, ten thousand in all.
    const COUNT: u64 = 1200;
    let len = |number| usize::try_from(number % 60).unwrap();
    let cluster = Cluster::new(make, 3, 4096);
    let received = AtomicU32::new(0);
    thread::scope(|scope| {
        for node in 0..3 {
            let (node, received) = (&cluster[node], &received);
            scope.spawn(move || send_all(node, COUNT, 3, &len));
            scope.spawn(move || {
                receive_all(node, COUNT, 3, &len);
                // Relaxed: it ends a loop.
                received.fetch_add(1, Ordering::Relaxed);
            });
        }
        // Some poll without need, and get in the way of those that wait.
        for _ in 0..2 {
            scope.spawn(|| {
                let deadline = soon();
                // Relaxed: as above.
                while received.load(Ordering::Relaxed) < 3 && Instant::now() < deadline {
                    (0..3).for_each(|node| cluster[node].poll());
                }
            });
        }
    });
    for node in NodeId::all(3) {
        assert!(!cluster[0].fabric.is_lost(node));
    }
}
