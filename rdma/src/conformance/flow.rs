//! More requests than there is room for, posters and peers that do not look, and many at once.

use std::{collections::HashSet, ptr::NonNull, thread, time::Instant};

use super::{
    cluster::Cluster,
    lent::pattern,
    node::{at, soon},
    providers::Maker,
};
use crate::{Completion, Fabric, Op, Request, Token};

/// Far more than any queue holds.
const COUNT: usize = 10 * 1024;

/// Posts `ops` with their numbers as tokens, and checks that each completes once. `meanwhile` is
/// called when the queue is first found full; the number of requests that had been posted then is
/// returned.
fn post_all(fabric: &dyn Fabric, ops: &[Op], meanwhile: &mut dyn FnMut()) -> usize {
    let requests: Vec<Request> =
        (0..).zip(ops).map(|(number, &op)| Request { token: Token(number), op }).collect();
    let mut left: HashSet<Token> = requests.iter().map(|request| request.token).collect();
    // SAFETY: callers keep the memory of `ops` until this returns, when all have completed.
    let first = unsafe { fabric.post(&requests) }.unwrap();
    meanwhile();
    let mut posted = first;
    while !left.is_empty() {
        fabric.poll(&mut |completion| {
            if let Completion::Done { token, result } = completion {
                result.unwrap();
                assert!(left.remove(&token), "{token:?} completes once");
            }
        });
        // SAFETY: as above.
        posted += unsafe { fabric.post(&requests[posted..]) }.unwrap();
        if !fabric.has_arrived() && !left.is_empty() {
            fabric.wait(fabric.epoch(), soon());
        }
    }
    first
}

pub(super) fn a_full_queue_says_so_and_loses_nothing(make: Maker) {
    let mut cluster = Cluster::new(make, 2, COUNT * 8);
    let (mut poster, mut target) = (cluster.take(0), cluster.take(1));
    // The test itself polls the one; the other looks only when the queue is full.
    poster.pause();
    target.pause();
    let words: Vec<[u8; 8]> = (1..=COUNT as u64).map(u64::to_le_bytes).collect();
    let write = |(number, word): (u64, &[u8; 8])| Op::Write {
        source: NonNull::from(word),
        target: at(1, number * 8),
    };
    let ops: Vec<Op> = (0..).zip(&words).map(write).collect();
    let fabric = &*poster.node.fabric;
    let first = post_all(fabric, &ops, &mut || target.resume());
    let is_one_sided = fabric.capabilities(target.node.fabric.node()).one_sided;
    assert!(is_one_sided || first < COUNT, "what waits for a peer is bounded");
    assert!(target.node.own(0, COUNT * 8) == words.as_flattened());
}

pub(super) fn a_peer_that_pauses_delays_and_loses_nothing(make: Maker) {
    let mut cluster = Cluster::new(make, 3, 4 << 20);
    let mut slow = cluster.take(1);
    let bytes = |number: u64| pattern(number, 10_000);
    thread::scope(|scope| {
        let poster = &cluster[0];
        let posting = scope.spawn(move || {
            let write = |number| poster.start_write(at(1, number * 10_000), &bytes(number));
            let under_way: Vec<_> = (0..400).map(write).collect();
            under_way.into_iter().for_each(|write| _ = write.finish().unwrap());
        });
        slow.pause();
        // Others go on meanwhile.
        for _ in 0..200 {
            poster.run(Op::FetchAdd { target: at(2, 0), addend: 1 }).unwrap();
        }
        slow.resume();
        posting.join().unwrap();
    });
    for number in 0..400 {
        assert!(slow.node.own(number * 10_000, 10_000) == bytes(number), "{number}");
    }
    assert_eq!(cluster[2].own_word(0), 200);
}

pub(super) fn threads_share_a_fabric(make: Maker) {
    let cluster = Cluster::new(make, 2, 4 << 20);
    thread::scope(|scope| {
        for number in 0..4_u64 {
            let node = &cluster[0];
            scope.spawn(move || {
                for round in 0..100 {
                    let bytes = pattern(number << 32 | round, 5000);
                    let place = at(1, (number << 20) + round * 5000 + number);
                    node.write(place, &bytes);
                    assert!(node.read(place, 5000) == bytes, "thread {number}, round {round}");
                    node.run(Op::FetchAdd { target: at(1, (4 << 20) - 8), addend: 1 }).unwrap();
                }
            });
        }
    });
    assert_eq!(cluster[1].own_word((4 << 20) - 8), 400);
}

pub(super) fn forgotten_completions_harm_nobody(make: Maker) {
    let cluster = Cluster::new(make, 2, 1 << 20);
    for round in 0..COUNT as u64 {
        // Neither waited for nor looked at; its memory stays the fabric's.
        drop(cluster[0].start_write(at(1, 64 + round % 1000), &[7; 10]));
        if round % 100 == 0 {
            cluster[0].run(Op::FetchAdd { target: at(1, 0), addend: 1 }).unwrap();
        }
    }
    assert_eq!(cluster[0].run(Op::FetchAdd { target: at(1, 0), addend: 0 }).unwrap(), 103);
}

pub(super) fn requests_from_within_a_poll_are_carried_out(make: Maker) {
    const CHAIN: u64 = 100;
    let mut cluster = Cluster::new(make, 2, 4096);
    let mut poster = cluster.take(0);
    poster.pause();
    let fabric = &*poster.node.fabric;
    let add = |number| {
        let request =
            Request { token: Token(number), op: Op::FetchAdd { target: at(1, 0), addend: 1 } };
        // SAFETY: an atomic names no memory of this process.
        assert_eq!(unsafe { fabric.post(&[request]) }.unwrap(), 1);
    };
    add(0);
    let mut ended = 0;
    while ended < CHAIN {
        fabric.poll(&mut |completion| {
            let Completion::Done { token, result } = completion else { return };
            assert_eq!((token, result.unwrap()), (Token(ended), ended));
            ended += 1;
            // What a handler might do: ask for more, look again, and wait for what cannot come
            // before it returns.
            add(ended);
            let within = fabric.poll(&mut |_| {});
            assert_eq!(within, 0, "completions are handed out by one at a time");
            fabric.wait_until(Instant::now(), &mut || false);
        });
        if ended < CHAIN {
            fabric.wait(fabric.epoch(), soon());
        }
    }
}
