//! Litmus tests: what no order of events explains must never be seen.
//!
//! The table of what is allowed and what is not stands in docs/memory-model.md. Words are zero
//! before each round.

use super::{
    providers::Maker,
    rounds::{Program, Round, cluster, run},
};

/// Runs `programs` and checks that none of their rounds ends as `forbidden` says.
fn check<const N: usize>(
    make: Maker,
    programs: [(usize, Program); N],
    forbidden: fn(&[[u64; 2]; N]) -> bool,
) {
    let nodes = if N == 4 { 4 } else { 3 };
    for (number, seen) in run(&cluster(make, nodes), programs).iter().enumerate() {
        assert!(!forbidden(seen), "round {number}: {seen:?}");
    }
}

const NOTHING: [u64; 2] = [0; 2];

/// Reads two words, one after the other.
fn read_both(round: &Round<'_>, first: u64, second: u64) -> [u64; 2] {
    let first = round.read(round.word(1, first));
    [first, round.read(round.word(1, second))]
}

pub(super) fn message_passing_by_signal(make: Maker) {
    let write: Program = |round| {
        round.start_write(round.word(1, 0), 1);
        round.signal(round.word(1, 1), 1);
        NOTHING
    };
    check(make, [(0, write), (2, |round| read_both(round, 1, 0))], |[_, seen]| *seen == [1, 0]);
}

pub(super) fn message_passing_by_completion(make: Maker) {
    let write: Program = |round| {
        round.write(round.word(1, 0), 1);
        round.write(round.word(1, 1), 1);
        NOTHING
    };
    check(make, [(0, write), (2, |round| read_both(round, 1, 0))], |[_, seen]| *seen == [1, 0]);
}

pub(super) fn message_passing_over_two_homes(make: Maker) {
    let write: Program = |round| {
        round.write(round.word(1, 0), 1);
        round.write(round.word(2, 1), 1);
        NOTHING
    };
    let read: Program = |round| {
        let flag = round.read(round.word(2, 1));
        [flag, round.read(round.word(1, 0))]
    };
    check(make, [(0, write), (2, read)], |[_, seen]| *seen == [1, 0]);
}

pub(super) fn store_buffering_of_atomics(make: Maker) {
    let one: Program = |round| {
        round.set(round.word(0, 0), 1);
        [round.get(round.word(1, 1)), 0]
    };
    let two: Program = |round| {
        round.set(round.word(1, 1), 1);
        [round.get(round.word(0, 0)), 0]
    };
    check(make, [(0, one), (1, two)], |[one, two]| one[0] == 0 && two[0] == 0);
    // Both away from either home.
    check(make, [(2, one), (0, two)], |[one, two]| one[0] == 0 && two[0] == 0);
}

pub(super) fn load_buffering(make: Maker) {
    let one: Program = |round| {
        let seen = round.read(round.word(0, 0));
        round.write(round.word(1, 1), 1);
        [seen, 0]
    };
    let two: Program = |round| {
        let seen = round.read(round.word(1, 1));
        round.write(round.word(0, 0), 1);
        [seen, 0]
    };
    check(make, [(1, one), (0, two)], |[one, two]| one[0] == 1 && two[0] == 1);
}

pub(super) fn independent_reads_of_independent_writes(make: Maker) {
    let write_one: Program = |round| {
        round.set(round.word(0, 0), 1);
        NOTHING
    };
    let write_other: Program = |round| {
        round.set(round.word(1, 1), 1);
        NOTHING
    };
    let read: Program = |round| {
        let one = round.get(round.word(0, 0));
        [one, round.get(round.word(1, 1))]
    };
    let read_back: Program = |round| {
        let other = round.get(round.word(1, 1));
        [other, round.get(round.word(0, 0))]
    };
    let programs = [(0, write_one), (1, write_other), (2, read), (3, read_back)];
    check(make, programs, |[_, _, one, other]| *one == [1, 0] && *other == [1, 0]);
}

pub(super) fn coherence_of_one_word(make: Maker) {
    // Words of which every byte differs, so that half of one would be seen.
    const FIRST: u64 = 0x0101_0101_0101_0101;
    const SECOND: u64 = 0x0202_0202_0202_0202;
    let write: Program = |round| {
        round.start_write(round.word(1, 0), FIRST);
        round.start_write(round.word(1, 0), SECOND);
        NOTHING
    };
    check(make, [(0, write), (2, |round| read_both(round, 0, 0))], |[_, [one, other]]| {
        let known = [0, FIRST, SECOND];
        let is_whole = known.contains(one) && known.contains(other);
        !is_whole || one > other
    });
}
