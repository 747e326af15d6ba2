//! Small programs that run against each other, round after round, each with words of its own.

use std::{thread, time::Instant};

use super::{
    cluster::Cluster,
    node::{Node, at, soon},
    providers::Maker,
};
use crate::{
    Op, RemoteAddr,
    primitive::{AtomicU64, Ordering},
};

/// Bytes between the words of two rounds, which are in different cache lines.
const STRIDE: u64 = 256;
/// Bytes between two words of a round.
const APART: u64 = 128;
const ROUNDS: u64 = 1000;

/// What a program sees of the cluster in one round.
pub(super) struct Round<'a> {
    node: &'a Node,
    number: u64,
}

impl Round<'_> {
    /// The round's word `index` of those at `home`.
    pub(super) fn word(&self, home: u16, index: u64) -> RemoteAddr {
        at(home, self.number * STRIDE + index * APART)
    }

    /// Writes a word, plainly, and waits.
    pub(super) fn write(&self, target: RemoteAddr, value: u64) {
        self.node.write(target, &value.to_le_bytes());
    }

    /// Reads a word, plainly.
    pub(super) fn read(&self, source: RemoteAddr) -> u64 {
        u64::from_le_bytes(self.node.read(source, 8).try_into().unwrap())
    }

    /// Writes a word by an atomic.
    pub(super) fn set(&self, target: RemoteAddr, value: u64) {
        self.node.run(Op::Swap { target, value }).unwrap();
    }

    /// Reads a word by an atomic.
    pub(super) fn get(&self, target: RemoteAddr) -> u64 {
        self.node.run(Op::FetchAdd { target, addend: 0 }).unwrap()
    }

    /// Sets a word after all that went before to its node, without waiting.
    pub(super) fn signal(&self, target: RemoteAddr, value: u64) {
        drop(self.node.start_word(Op::Signal { target, value }));
    }

    /// Starts to write a word, without waiting.
    pub(super) fn start_write(&self, target: RemoteAddr, value: u64) {
        drop(self.node.start_write(target, &value.to_le_bytes()));
    }
}

/// What one thread does in a round; it returns what it saw.
pub(super) type Program = fn(&Round<'_>) -> [u64; 2];

/// Runs programs against each other, each at its node; returns what they saw, by round.
pub(super) fn run<const N: usize>(
    cluster: &Cluster,
    programs: [(usize, Program); N],
) -> Vec<[[u64; 2]; N]> {
    let arrived = AtomicU64::new(0);
    let seen = thread::scope(|scope| {
        let threads = programs.map(|(node, program)| {
            let (node, arrived) = (&cluster[node], &arrived);
            scope.spawn(move || {
                let round = |number| {
                    await_all(arrived, N as u64 * (number + 1));
                    program(&Round { node, number })
                };
                (0..ROUNDS).map(round).collect::<Vec<[u64; 2]>>()
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    let rounds = 0..usize::try_from(ROUNDS).unwrap();
    rounds.map(|round| seen.each_ref().map(|seen| seen[round])).collect()
}

/// Waits until `count` have come here, this thread among them: at about the same time they go on.
fn await_all(arrived: &AtomicU64, count: u64) {
    let deadline = soon();
    // Relaxed, both: threads only meet here; what one sees of another is what is tried.
    arrived.fetch_add(1, Ordering::Relaxed);
    while arrived.load(Ordering::Relaxed) < count {
        assert!(Instant::now() < deadline, "a thread of this test has failed");
        thread::yield_now();
    }
}

/// A cluster with room for the words of all rounds.
pub(super) fn cluster(make: Maker, nodes: u16) -> Cluster {
    Cluster::new(make, nodes, usize::try_from(ROUNDS * STRIDE).unwrap())
}
