//! What the network does to frames, and that a seed decides it.

use super::*;

const A: NodeId = NodeId::new(0);
const B: NodeId = NodeId::new(1);

const WILD: Faults = Faults {
    loss: 100_000,
    duplication: 100_000,
    corruption: 100_000,
    reordering: 200_000,
    delay_max: Duration::from_micros(30),
};

fn frame(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(25)
}

/// Sends 1000 frames, and returns what happens.
fn history(seed: u64, faults: Faults) -> Vec<(Moment, Event)> {
    let mut network = Network::new(2, seed, Model::THUNDERBOLT_5, faults);
    for number in 0..1000 {
        network.send(A, B, &frame(number));
    }
    std::iter::from_fn(|| network.next_event()).collect()
}

fn bytes((_, event): &(Moment, Event)) -> &[u8] {
    let Event::Frame { bytes, .. } = event else { panic!("{event:?}") };
    bytes
}

/// Takes all that happens, as the tags of who is woken.
fn tags(network: &mut Network) -> Vec<u64> {
    let tag = |event| match event {
        Event::Wake { tag, .. } => tag,
        Event::Frame { bytes, .. } => u64::from(bytes[0]),
    };
    std::iter::from_fn(|| network.next_event().map(|(_, event)| tag(event))).collect()
}

#[test]
fn a_wire_without_faults_carries_every_frame_in_order_and_in_its_time() {
    let history = history(1, Faults::NONE);
    assert_eq!(history.len(), 1000);
    assert!(history.iter().zip(0..).all(|(event, number)| bytes(event) == frame(number)));
    let model = Model::THUNDERBOLT_5;
    let first = model.cost + model.transfer(100) + model.latency;
    assert_eq!(history[0].0, Moment::START.after(first));
    // Short frames come as fast as they can be posted.
    assert_eq!(history[999].0, Moment::START.after(first + 999 * model.cost));
}

#[test]
fn long_frames_come_as_fast_as_the_wire_carries_them() {
    let mut network = Network::new(2, 1, Model::INFINIBAND, Faults::NONE);
    let frames = 1000;
    for _ in 0..frames {
        network.send(A, B, &[0; 64 << 10]);
    }
    let end = std::iter::from_fn(|| network.next_event()).last().unwrap().0;
    let seconds = end.since(Moment::START).as_secs_f64();
    let rate = f64::from(frames) * f64::from(64 << 10) / seconds;
    assert!((49e9..50.1e9).contains(&rate), "{rate}");
}

#[test]
fn a_seed_decides_everything() {
    assert_eq!(history(7, WILD), history(7, WILD));
    assert_ne!(history(7, WILD), history(8, WILD));
}

#[test]
fn every_fault_befalls_some_frames() {
    let history = history(3, WILD);
    let whole: Vec<u32> = (0..1000)
        .filter(|&number| history.iter().any(|event| bytes(event) == frame(number)))
        .collect();
    assert!((700..900).contains(&whole.len()), "lost or corrupted: {}", 1000 - whole.len());
    let corrupted =
        history.iter().filter(|event| whole.iter().all(|&number| bytes(event) != frame(number)));
    assert!((60..150).contains(&corrupted.count()));
    assert!((950..1050).contains(&history.len()), "{}", history.len());
    let numbers = history.iter().map(|event| bytes(event)[..4.min(bytes(event).len())].to_vec());
    assert!(!numbers.collect::<Vec<_>>().is_sorted(), "some are overtaken");
}

#[test]
fn a_cut_cable_loses_one_direction_until_it_is_mended() {
    let mut network = Network::new(2, 1, Model::THUNDERBOLT_5, Faults::NONE);
    network.send(A, B, &[1]);
    network.cut(A, B);
    network.send(A, B, &[2]);
    network.send(B, A, &[3]);
    network.mend(A, B);
    network.send(A, B, &[4]);
    assert_eq!(tags(&mut network), [1, 3, 4]);
}

#[test]
fn a_paused_node_finds_everything_when_it_goes_on() {
    let mut network = Network::new(2, 1, Model::THUNDERBOLT_5, Faults::NONE);
    network.pause(B);
    network.send(A, B, &[1]);
    network.wake(B, Moment(5), 2);
    network.wake(A, Moment(1_000_000), 3);
    assert_eq!(tags(&mut network), [3]);
    network.go_on(B);
    assert_eq!(tags(&mut network), [2, 1]);
    assert_eq!(network.now(), Moment(1_000_000));
}

#[test]
fn a_crash_ends_what_was_planned_for_the_node_and_a_restart_does_not_bring_it_back() {
    let mut network = Network::new(2, 1, Model::THUNDERBOLT_5, Faults::NONE);
    network.send(A, B, &[1]);
    network.send(B, A, &[2]);
    network.wake(B, Moment(9_000_000), 3);
    network.crash(B);
    network.send(B, A, &[4]);
    network.restart(B);
    network.send(A, B, &[5]);
    assert_eq!(tags(&mut network), [2, 5]);
}
