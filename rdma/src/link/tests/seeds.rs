//! Two ends over networks that do their worst, each from a seed.

use std::{thread, time::Duration};

use super::ends::{A, B, Ends, TEST, Traffic, identity};
use crate::{
    Moment,
    link::{Refusal, Settings, Statistics},
    sim::{Faults, Model, Network, Random},
};

const SEEDS: u64 = 10_000;
const MEND: u64 = TEST;
const CUT: u64 = TEST + 1;
const PAUSE: u64 = TEST + 2;
const GO_ON: u64 = TEST + 3;
const CRASH: u64 = TEST + 4;

/// Says which seed failed, for it to be run again alone.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("this was seed {}", self.0);
        }
    }
}

fn faults(random: &mut Random) -> Faults {
    let mut chance = |max: u64| {
        let chance = if random.chance(500_000) { random.below(max) } else { 0 };
        chance.try_into().unwrap()
    };
    Faults {
        loss: chance(300_000),
        duplication: chance(300_000),
        corruption: chance(100_000),
        reordering: chance(300_000),
        delay_max: Duration::from_micros(random.below(100)),
    }
}

fn settings(random: &mut Random) -> Settings {
    let reordering = u16::try_from(random.below(6)).unwrap();
    let mut window = || 1 << random.below(6);
    Settings { requests: window(), replies: window(), reordering, ..Settings::new(identity(A)) }
}

fn misfortune(ends: &mut Ends, event: u64) {
    let network = &mut ends.network;
    let is_first = network.random().chance(500_000);
    let (one, other) = if is_first { (A, B) } else { (B, A) };
    match event {
        CUT => network.cut(one, other),
        PAUSE => network.pause(one),
        MEND => [(A, B), (B, A)].into_iter().for_each(|(from, to)| network.mend(from, to)),
        GO_ON => [A, B].into_iter().for_each(|node| network.go_on(node)),
        _ => unreachable!("planned below"),
    }
}

/// Two ends, and all that a seed decides about them.
fn ends(random: &mut Random) -> (Ends, Settings) {
    let model = if random.chance(500_000) { Model::THUNDERBOLT_5 } else { Model::INFINIBAND };
    let network = Network::new(2, random.draw(), model, faults(random));
    let traffic = Traffic {
        packets: if random.chance(20_000) { 400 } else { random.below(40) },
        len: None,
        holding: if random.chance(300_000) { 50_000 } else { 0 },
        pause_max: Duration::from_micros(1 + random.below(200)),
    };
    let settings = settings(random);
    (Ends::new(network, &settings, traffic), settings)
}

/// What has happened at the two ends, while a cable was cut and a node paused.
fn run(seed: u64) -> [Statistics; 2] {
    let _seed = Seed(seed);
    let mut random = Random::new(seed);
    let (mut ends, _) = ends(&mut random);
    for (begin, end) in [(CUT, MEND), (CUT, MEND), (PAUSE, GO_ON)] {
        let at = Moment(random.below(1_000_000));
        ends.network.wake(A, at, begin);
        // Planned at both, as one may be paused.
        let late = at.after(Duration::from_millis(3));
        [A, B].into_iter().for_each(|node| ends.network.wake(node, late, end));
    }
    finish(ends, misfortune)
}

/// Lets everything happen that will.
fn finish(mut ends: Ends, mut happen: impl FnMut(&mut Ends, u64)) -> [Statistics; 2] {
    while let Some(event) = ends.step() {
        event.into_iter().for_each(|event| happen(&mut ends, event));
        assert!(ends.network.now() < Moment(60_000_000_000), "a minute must be enough");
    }
    assert!(ends.is_complete(), "a link that is quiet has delivered everything");
    ends.ends.map(|end| *end.link.statistics())
}

#[test]
fn packets_arrive_once_in_order_and_whole_whatever_befalls_the_frames() {
    let runs: Vec<Statistics> = (0..SEEDS).flat_map(run).collect();
    // The worst has happened indeed.
    let sum = |count: fn(&Statistics) -> u64| runs.iter().map(count).sum::<u64>();
    assert!(sum(|run| run.sent) > 50 * SEEDS);
    assert!(sum(|run| run.repeated) > 5 * SEEDS);
    assert!(sum(|run| run.early) > 3 * SEEDS);
    assert!(sum(|run| run.duplicates) > 3 * SEEDS);
    assert!(sum(|run| run.timeouts) > SEEDS);
    assert!(sum(|run| run.refused[Refusal::Checksum as usize]) > SEEDS);
    assert!(sum(|run| run.refused[Refusal::Length as usize]) > 0);
    assert_eq!(sum(|run| run.refused[Refusal::Impossible as usize]), 0);
}

#[test]
fn a_new_link_hears_nothing_of_the_one_before() {
    let run = |seed| {
        let _seed = Seed(seed);
        let mut random = Random::new(seed);
        let (mut ends, settings) = ends(&mut random);
        for _ in 0..=random.below(2) {
            ends.network.wake(A, Moment(random.below(300_000)), CRASH);
        }
        finish(ends, |ends, _| ends.renew(B, &settings))
    };
    let runs: Vec<Statistics> = (0..SEEDS / 10).flat_map(run).collect();
    let strangers = |run: &Statistics| run.refused[Refusal::Stranger as usize];
    assert!(runs.iter().map(strangers).sum::<u64>() > SEEDS / 10, "some have come late");
}
