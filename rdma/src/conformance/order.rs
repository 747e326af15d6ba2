//! Requests to one node are carried out in the order in which they were posted.

use std::{collections::VecDeque, thread};

use super::{cluster::Cluster, lent::pattern, node::at, providers::Maker};
use crate::Op;

pub(super) fn the_later_of_two_writes_wins(make: Maker) {
    let cluster = Cluster::new(make, 2, 1 << 20);
    for round in 0..200_u64 {
        // Now and then the first takes several packets, and the second one.
        let len = if round % 20 == 0 { 600_000 } else { 1000 };
        let (first, second) = (pattern(round, len), pattern(round + 1000, 100));
        let one = cluster[0].start_write(at(1, 3), &first);
        let two = cluster[0].start_write(at(1, 53), &second);
        two.finish().unwrap();
        let expected = [&first[..50], &second, &first[150..]].concat();
        assert!(cluster[1].own(3, len) == expected, "the first has ended before the second");
        one.finish().unwrap();
        assert!(cluster[1].own(3, len) == expected);
    }
}

pub(super) fn a_signal_comes_after_what_was_written(make: Maker) {
    const ROUNDS: u64 = 10_000;
    const LEN: usize = 24;
    let cluster = Cluster::new(make, 2, 1 << 20);
    let place = |round: u64| 64 + round * LEN as u64;
    thread::scope(|scope| {
        let receiver = &cluster[1];
        scope.spawn(move || {
            let mut seen = 0;
            while seen < ROUNDS {
                receiver.wait_until(&mut || receiver.own_word(0) > seen);
                let now = receiver.own_word(0);
                for round in seen + 1..=now {
                    let found = receiver.own(place(round), LEN);
                    assert!(found == pattern(round, LEN), "round {round}, at signal {now}");
                }
                seen = now;
            }
        });
        let mut under_way = VecDeque::new();
        for round in 1..=ROUNDS {
            let write = cluster[0].start_write(at(1, place(round)), &pattern(round, LEN));
            let signal = Op::Signal { target: at(1, 0), value: round };
            under_way.push_back((write, cluster[0].start_word(signal)));
            if under_way.len() > 16 {
                let (write, signal) = under_way.pop_front().unwrap();
                write.finish().unwrap();
                signal.finish().unwrap();
            }
        }
        for (write, signal) in under_way {
            write.finish().unwrap();
            signal.finish().unwrap();
        }
    });
}

pub(super) fn a_signal_waits_for_long_writes(make: Maker) {
    // More than a wire takes in at once: the second waits behind the first.
    const LEN: usize = 8 << 20;
    const PLACES: [u64; 2] = [64, LEN as u64 + 100];
    let mut cluster = Cluster::new(make, 2, 2 * LEN + 4096);
    let mut target = cluster.take(1);
    for round in 1..=5 {
        target.pause();
        let bytes = pattern(round, LEN);
        let writes = PLACES.map(|place| cluster[0].start_write(at(1, place), &bytes));
        let signal = cluster[0].start_word(Op::Signal { target: at(1, 0), value: round });
        target.resume();
        target.node.wait_until(&mut || target.node.own_word(0) == round);
        for place in PLACES {
            assert!(target.node.own(place, LEN) == bytes, "round {round}, at {place}");
        }
        writes.into_iter().chain([signal]).for_each(|pending| _ = pending.finish().unwrap());
    }
}

pub(super) fn a_read_sees_the_writes_before_it(make: Maker) {
    let cluster = Cluster::new(make, 2, 1 << 20);
    for round in 0..200_u64 {
        let len = if round % 20 == 0 { 600_000 } else { 100 };
        let bytes = pattern(round, len);
        let write = cluster[0].start_write(at(1, 8), &bytes);
        let read = cluster[0].start_read(at(1, 8), len);
        let word = cluster[0].start_word(Op::FetchAdd { target: at(1, 8), addend: 1 });
        let (first, _) = bytes.split_first_chunk().unwrap();
        assert_eq!(word.finish().unwrap(), u64::from_le_bytes(*first));
        write.finish().unwrap();
        let seen = read.bytes();
        // The atomic came after the read, which may have looked at the word later all the same.
        assert!(seen[8..] == bytes[8..], "round {round}");
    }
}

pub(super) fn nothing_overtakes_an_atomic_or_a_signal(make: Maker) {
    let cluster = Cluster::new(make, 2, 1 << 20);
    let (node, target) = (&cluster[0], at(1, 8));
    let write = |value: u64| node.start_write(target, &value.to_ne_bytes());
    let read = || node.start_read(target, 8);
    let add = || node.start_word(Op::FetchAdd { target, addend: 1 });
    let mut now = 0;
    for round in 1..=500_u64 {
        let value = round << 32;
        let (added, written, seen) = (add(), write(value), read());
        assert_eq!(added.finish().unwrap(), now, "round {round}");
        written.finish().unwrap();
        assert_eq!(seen.bytes(), value.to_ne_bytes(), "the write comes after the addition");
        let (added, seen) = (add(), read());
        added.finish().unwrap();
        assert_eq!(seen.bytes(), (value + 1).to_ne_bytes(), "the read sees the addition");
        let signal = node.start_word(Op::Signal { target, value: 7 });
        now = value + 2;
        let (written, seen) = (write(now), read());
        signal.finish().unwrap();
        written.finish().unwrap();
        assert_eq!(seen.bytes(), now.to_ne_bytes(), "the write comes after the signal");
        let signal = node.start_word(Op::Signal { target, value: round });
        let seen = read();
        signal.finish().unwrap();
        assert_eq!(seen.bytes(), round.to_ne_bytes(), "the read sees the signal");
        now = round;
    }
    assert_eq!(cluster[1].own_word(8), now);
}
