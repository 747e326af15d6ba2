//! Atomics: what they return, and that none is lost.

use std::{sync::Barrier, thread};

use super::{cluster::Cluster, node::at, providers::Maker};
use crate::{NodeId, Op};

pub(super) fn atomics_return_the_word_before(make: Maker) {
    let cluster = Cluster::new(make, 2, 4096);
    for (node, target) in [(0, at(0, 8)), (0, at(1, 16)), (1, at(0, 24)), (1, at(1, 4088))] {
        let run = |op| cluster[node].run(op).unwrap();
        let swap = |expected, desired| Op::CompareSwap { target, expected, desired };
        assert_eq!(run(Op::Swap { target, value: 5 }), 0);
        assert_eq!(run(Op::FetchAdd { target, addend: 3 }), 5);
        assert_eq!(run(Op::Swap { target, value: 9 }), 8);
        assert_eq!(run(swap(1, 7)), 9);
        assert_eq!(run(swap(9, u64::MAX)), 9);
        assert_eq!(run(Op::FetchAdd { target, addend: 3 }), u64::MAX, "it wraps");
        assert_eq!(run(Op::FetchAdd { target, addend: u64::MAX }), 2);
        assert_eq!(run(Op::FetchAdd { target, addend: 0 }), 1);
    }
}

pub(super) fn every_addition_of_every_node_counts(make: Maker) {
    let cluster = Cluster::new(make, 3, 4096);
    // Where it is one instruction, two have to meet within it.
    let is_near = cluster[0].fabric.capabilities(NodeId::new(1)).mapped;
    let each = if is_near { 50_000 } else { 2000 };
    let start = Barrier::new(3);
    let add = || Op::FetchAdd { target: at(1, 64), addend: 1 };
    let mut before: Vec<u64> = thread::scope(|scope| {
        let adding = (0..3).map(|node| {
            let (node, start) = (&cluster[node], &start);
            scope.spawn(move || {
                start.wait();
                let pending: Vec<_> = (0..each).map(|_| node.start_word(add())).collect();
                let ended = pending.into_iter().map(|pending| pending.finish().unwrap());
                ended.collect::<Vec<u64>>()
            })
        });
        let adding: Vec<_> = adding.collect();
        adding.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    before.sort_unstable();
    assert!(before.into_iter().eq(0..3 * each), "each found the word as another left it");
}

pub(super) fn a_lock_of_compare_swap_excludes(make: Maker) {
    const EACH: usize = 50;
    let cluster = Cluster::new(make, 3, 4096);
    let (lock, count) = (at(2, 0), at(0, 128));
    thread::scope(|scope| {
        for node in 0..3 {
            let node = &cluster[node];
            scope.spawn(move || {
                for _ in 0..EACH {
                    let take = Op::CompareSwap { target: lock, expected: 0, desired: 1 };
                    while node.run(take).unwrap() != 0 {
                        thread::yield_now();
                    }
                    let before = node.read(count, 8);
                    let before = u64::from_le_bytes(before.try_into().unwrap());
                    node.write(count, &(before + 1).to_le_bytes());
                    assert_eq!(node.run(Op::Swap { target: lock, value: 0 }).unwrap(), 1);
                }
            });
        }
    });
    assert_eq!(cluster[0].own_word(128), 3 * EACH as u64);
}
