//! What an unreliable connection promises.

use std::{collections::VecDeque, time::Instant};

use pangea_rdma::verbs::{
    ProtectionDomain,
    uc::{Event, FRAME_LEN, Uc},
};

use crate::{
    devices,
    fixture::{deadline, pattern},
};

const SENDS: u32 = 8;

fn two(receives: u32) -> Option<[Uc; 2]> {
    let ports = devices::ports()?;
    let domains = ports.map(|port| ProtectionDomain::new(&port).unwrap());
    let mut ends = domains.map(|domain| Uc::new(&domain, SENDS, receives, 0).unwrap());
    let endpoints = [ends[0].endpoint(), ends[1].endpoint()];
    ends[0].connect(&endpoints[1]).unwrap();
    ends[1].connect(&endpoints[0]).unwrap();
    Some(ends)
}

#[test]
fn frames_arrive_whole_and_in_order() {
    let Some([mut ours, mut theirs]) = two(64) else { return };
    let frames: Vec<_> = (0..500).map(|seed| pattern(seed, 1 + seed * 37 % FRAME_LEN)).collect();
    let mut free: VecDeque<u32> = (0..SENDS).collect();
    let (mut sent, mut came, deadline) = (0, 0, deadline());
    while came < frames.len() {
        assert!(Instant::now() < deadline, "{came} of {sent} frames came");
        // No more than the peer has receives for: soft-RoCE drops the others.
        if sent < frames.len()
            && sent - came < 32
            && let Some(slot) = free.pop_front()
        {
            let frame = &frames[sent];
            ours.slot(slot).unwrap()[..frame.len()].copy_from_slice(frame);
            assert!(ours.send(slot, frame.len()));
            sent += 1;
        }
        ours.poll(&mut |event| match event {
            Event::Sent { slot } => free.push_back(slot),
            other => panic!("{other:?}"),
        });
        theirs.poll(&mut |event| match event {
            Event::Frame(frame) => {
                assert!(frame == frames[came], "frame {came}");
                came += 1;
            }
            other => panic!("{other:?}"),
        });
    }
}

#[test]
fn a_slot_is_not_handed_out_while_it_is_sent() {
    let Some([mut ours, _theirs]) = two(64) else { return };
    for slot in 0..SENDS {
        assert!(ours.send(slot, 8));
        assert!(ours.slot(slot).is_none());
    }
    assert!(!ours.send(0, 8), "the queue is full");
    let (mut sent, deadline) = (0, deadline());
    while sent < SENDS {
        assert!(Instant::now() < deadline, "{sent} frames were sent");
        ours.poll(&mut |event| sent += u32::from(matches!(event, Event::Sent { .. })));
    }
    assert!(ours.slot(0).is_some());
    assert!(ours.send(0, 8));
    assert!(ours.send(0, 8), "a frame may be sent again before it has left");
}

#[test]
fn a_doorbell_sends_all_that_waits_for_it() {
    let Some([mut ours, mut theirs]) = two(64) else { return };
    for slot in 0..SENDS {
        ours.slot(slot).unwrap()[0] = u8::try_from(slot).unwrap();
        assert!(ours.send(slot, 1));
    }
    ours.ring();
    let (mut came, deadline) = (Vec::new(), deadline());
    while came.len() < SENDS as usize {
        assert!(Instant::now() < deadline, "{came:?} came");
        theirs.poll(&mut |event| match event {
            Event::Frame(frame) => came.push(u32::from(frame[0])),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(came, (0..SENDS).collect::<Vec<_>>());
}

#[test]
fn a_peer_that_is_gone_is_silence() {
    let Some([mut ours, theirs]) = two(64) else { return };
    drop(theirs);
    let (mut sent, deadline) = (0, deadline());
    assert!(ours.send(0, 100));
    while sent == 0 {
        assert!(Instant::now() < deadline, "the frame does not leave");
        ours.poll(&mut |event| sent += u32::from(matches!(event, Event::Sent { .. })));
    }
    assert_eq!(ours.lost(), None);
}
