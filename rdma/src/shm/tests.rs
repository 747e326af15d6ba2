//! What is peculiar to shared memory; the rest is in `conformance`.

use std::{ptr::NonNull, thread, time::Duration};

use super::*;
use crate::{
    RemoteAddr,
    bootstrap::{
        Build, hosts,
        local::{Rendezvous, join, tests::invitation},
    },
};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// The ends of a cluster of `nodes`, each with a region of `len` bytes, attached everywhere.
fn cluster(nodes: u16, len: usize) -> Vec<Shm> {
    let rendezvous = Rendezvous::new(nodes).unwrap();
    let joins: Vec<_> = (0..nodes)
        .map(|node| {
            let invitation = invitation(&rendezvous, node);
            thread::spawn(move || {
                let meeting = join(&invitation, &Build::default(), soon()).unwrap();
                let shm = Shm::connect(meeting, soon()).unwrap();
                let region = shm.register(Arc::new(Mapping::new(len).unwrap())).unwrap();
                for peer in NodeId::all(nodes).filter(|&peer| peer != shm.node()) {
                    let memory = shm.region(peer, region, soon()).unwrap();
                    let PeerMemory::Object(object) = memory else { panic!("{memory:?}") };
                    shm.attach(peer, region, Arc::new(object.map().unwrap()));
                }
                shm
            })
        })
        .collect();
    rendezvous.serve(soon(), &|| false).unwrap().unwrap();
    joins.into_iter().map(|join| join.join().unwrap()).collect()
}

fn at(node: u16, offset: u64) -> RemoteAddr {
    RemoteAddr { node: NodeId::new(node), region: Region(1), offset }
}

/// Starts `op`, which this provider carries out at once.
fn post(shm: &Shm, op: Op) {
    // SAFETY: shared memory does an operation before `post` returns, and callers keep the memory
    // alive until then.
    assert_eq!(unsafe { shm.post(&[Request { token: Token(9), op }]) }.unwrap(), 1);
}

/// Does `op` and waits for its completion.
fn run(shm: &Shm, op: Op) -> Result<u64> {
    post(shm, op);
    let mut results = Vec::new();
    shm.poll(&mut |completion| {
        if let Completion::Done { token: Token(9), result } = completion {
            results.push(result);
        }
    });
    assert_eq!(results.len(), 1, "a request completes exactly once");
    results.remove(0)
}

fn message(bytes: &mut [u8], target: u16) -> Op {
    Op::Send { target: NodeId::new(target), message: NonNull::from(bytes) }
}

#[test]
fn a_sender_with_a_slow_receiver_waits_for_room() {
    let nodes = cluster(2, 4096);
    let mut bytes = [3; MESSAGE_LEN_MAX];
    let request = Request { token: Token(1), op: message(&mut bytes, 1) };
    // SAFETY: `bytes` outlives the last poll below, and is not touched.
    while unsafe { nodes[0].post(&[request]) }.unwrap() == 1 {}
    nodes[0].poll(&mut |_| {});
    assert!(
        !nodes[0].wait(nodes[0].epoch(), Instant::now() + Duration::from_millis(1)),
        "the ring is full"
    );
    thread::scope(|scope| {
        let sender = scope.spawn(|| nodes[0].wait(1, soon()));
        while nodes[1].poll(&mut |_| {}) == 0 {}
        assert!(sender.join().unwrap(), "reading makes room, and tells the sender");
    });
    // SAFETY: as above.
    assert_eq!(unsafe { nodes[0].post(&[request]) }.unwrap(), 1);
    nodes[0].poll(&mut |_| {});
}

#[test]
fn a_lost_node_wakes_who_waits_and_takes_no_message() {
    let mut nodes = cluster(3, 4096);
    let lost = nodes.remove(1);
    let epoch = nodes[0].epoch();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| nodes[0].wait(1, soon()));
        let other =
            scope.spawn(|| nodes[1].wait_until(soon(), &mut || nodes[1].is_lost(NodeId::new(1))));
        drop(lost);
        assert!(waiter.join().unwrap());
        assert!(other.join().unwrap());
    });
    assert!(nodes[0].epoch() > epoch);
    assert_eq!(nodes[0].presence(NodeId::new(1)), Presence::Left);
    let error = run(&nodes[0], message(&mut [1], 1)).unwrap_err();
    assert!(matches!(error, Error::PeerLost { .. }), "{error}");
    run(&nodes[0], message(&mut [1], 2)).unwrap();
}

#[test]
fn room_in_the_ring_of_a_lost_node_keeps_nobody_awake() {
    let nodes = cluster(2, 4096);
    let mut bytes = [3; MESSAGE_LEN_MAX];
    let request = Request { token: Token(1), op: message(&mut bytes, 1) };
    // SAFETY: a message is copied before `post` returns.
    while unsafe { nodes[0].post(&[request]) }.unwrap() == 1 {}
    nodes[0].poll(&mut |_| {});
    nodes[1].poll(&mut |_| {});
    assert!(nodes[0].has_arrived_near(), "there is room again");
    nodes[0].membership.lose(NodeId::new(1), Departure::Died, &nodes[0].own);
    run(&nodes[0], message(&mut bytes, 1)).unwrap_err();
    assert!(!nodes[0].wait(nodes[0].epoch(), Instant::now()), "there is nothing to do");
}

#[test]
fn a_peer_that_breaks_the_protocol_is_lost_and_the_others_are_heard() {
    let nodes = cluster(3, 4096);
    post(&nodes[0], message(&mut [1; 60], 2));
    // The stamp of the first cell of the ring from node 0: a length beyond any message.
    nodes[2].own.deface_ring(NodeId::new(0));
    post(&nodes[1], message(&mut [2], 2));
    let mut seen = Vec::new();
    nodes[2].poll(&mut |completion| {
        if let Completion::Message { message, .. } = completion {
            seen.extend_from_slice(message);
        }
    });
    assert_eq!(seen, [2]);
    assert_eq!(nodes[2].presence(NodeId::new(0)), Presence::Died);
    assert_eq!(nodes[2].poll(&mut |_| {}), 0);
}

#[test]
fn who_waits_can_be_woken() {
    let shm = Shm::alone().unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| shm.wait(shm.epoch(), soon()));
        shm.wake();
        assert!(waiter.join().unwrap());
    });
    assert!(!shm.wait(shm.epoch(), Instant::now()), "once");
}

#[test]
fn a_word_and_a_ring_wake_a_sleeper() {
    let nodes = cluster(2, 4096);
    let word = nodes[1].regions.mapping(at(1, 64)).unwrap();
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let word = word.word(64).unwrap();
            // Acquire: pairs with the SeqCst of the fetch-add below.
            nodes[1].wait_until(soon(), &mut || word.load(Ordering::Acquire) == 1)
        });
        run(&nodes[0], Op::FetchAdd { target: at(1, 64), addend: 1 }).unwrap();
        nodes[0].ring(NodeId::new(1));
        assert!(sleeper.join().unwrap());
    });
}

#[test]
fn a_cluster_of_one_talks_to_itself() {
    let shm = Shm::alone().unwrap();
    post(&shm, message(&mut [1, 2], 0));
    let mut seen = Vec::new();
    shm.poll(&mut |completion| {
        if let Completion::Message { message, .. } = completion {
            seen.extend_from_slice(message);
        }
    });
    assert_eq!(seen, [1, 2]);
    assert!(!shm.is_lost(shm.node()));
}

#[test]
fn only_nodes_of_this_host_are_reached() {
    let (meetings, _lifelines) = hosts::tests::meet(&["a", "b", "a"]);
    let connects = meetings
        .into_iter()
        .map(|meeting| thread::spawn(move || Shm::connect(meeting, soon()).unwrap()));
    let connects: Vec<_> = connects.collect();
    let nodes: Vec<Shm> = connects.into_iter().map(|one| one.join().unwrap()).collect();
    run(&nodes[0], message(&mut [7], 2)).unwrap();
    let mut heard = Vec::new();
    while heard.is_empty() {
        nodes[2].poll(&mut |completion| {
            if let Completion::Message { source, message } = completion {
                heard.push((source, message.to_vec()));
            }
        });
    }
    assert_eq!(heard, [(NodeId::new(0), vec![7])]);
    let error = run(&nodes[0], message(&mut [7], 1)).unwrap_err().to_string();
    assert!(error.contains("no node 1 to send to on this host"), "{error}");
    assert_eq!(nodes[1].nodes(), 3);
}
