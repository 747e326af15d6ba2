//! How well a link uses a cable.

use std::time::Duration;

use super::{
    ends::{A, B, Ends, TEST, Traffic},
    settings,
};
use crate::{
    Moment,
    link::{FRAME_LEN_MAX, PACKET_LEN_MAX, Statistics},
    sim::{Faults, Model, Network},
};

const GO_ON: u64 = TEST + 2;

/// As many long packets as saturate a cable for a while.
const BULK: Traffic = Traffic {
    packets: 10_000,
    len: Some(PACKET_LEN_MAX),
    holding: 0,
    pause_max: Duration::from_nanos(1000),
};

fn bulk(model: Model, faults: Faults) -> Ends {
    let mut ends = Ends::new(Network::new(2, 1, model, faults), &settings(), BULK);
    while ends.step().is_some() {}
    assert!(ends.is_complete());
    ends
}

/// How much of the cable was used by packets, each way.
fn utilization(ends: &Ends, model: &Model) -> f64 {
    let frame = model.cost.max(model.transfer(FRAME_LEN_MAX));
    let frames = u32::try_from(2 * BULK.packets).unwrap();
    (frame * frames).as_secs_f64() / ends.completed_at.since(Moment::START).as_secs_f64()
}

#[test]
fn a_link_fills_its_cable_though_some_frames_are_lost() {
    for model in [Model::THUNDERBOLT_5, Model::INFINIBAND] {
        let whole = utilization(&bulk(model, Faults::NONE), &model);
        let lossy = utilization(&bulk(model, Faults { loss: 500, ..Faults::NONE }), &model);
        assert!(whole > 0.95, "{whole}");
        assert!(lossy > 0.9 * whole, "{lossy} of {whole}");
    }
}

#[test]
fn without_faults_nothing_is_sent_twice() {
    for end in bulk(Model::THUNDERBOLT_5, Faults::NONE).ends {
        let &Statistics { sent, repeated, reports, timeouts, early, .. } = end.link.statistics();
        assert_eq!((repeated, timeouts, early), (0, 0, 0));
        assert_eq!(sent - reports, 2 * BULK.packets);
        assert!(reports < sent / 40, "acknowledgements travel with packets: {reports}");
    }
}

#[test]
fn no_more_frames_are_under_way_than_there_are_receives() {
    let network = Network::new(2, 1, Model::THUNDERBOLT_5, Faults::NONE);
    let mut ends = Ends::new(network, &settings(), BULK);
    for (pause, node, peer) in [(1, A, B), (3, B, A), (5, A, B), (6, A, B)] {
        let at = Moment(pause * 1_000_000);
        ends.network.wake(node, at, TEST + u64::from(node.number()));
        // Woken at the other: where a node is paused, nothing happens.
        ends.network.wake(peer, at.after(Duration::from_micros(800)), GO_ON);
    }
    while let Some(event) = ends.step() {
        match event {
            Some(GO_ON) => [A, B].into_iter().for_each(|node| ends.network.go_on(node)),
            Some(pause) => ends.network.pause(if pause == TEST { A } else { B }),
            None => {}
        }
    }
    assert!(ends.is_complete());
    let most = usize::try_from(ends.under_way_max).unwrap();
    let windows = usize::from(settings().requests) + usize::from(settings().replies);
    assert!(most >= windows, "a pause has filled the windows: {most}");
    let timeouts: u64 = ends.ends.iter().map(|end| end.link.statistics().timeouts).sum();
    let attempts = 2 * usize::try_from(timeouts).unwrap();
    assert!(most <= settings().receives() + attempts, "{most} and {attempts}");
    assert!(attempts < 20, "a short pause is hardly noticed: {attempts}");
}
