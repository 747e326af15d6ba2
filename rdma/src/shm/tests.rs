//! Behaviour of the provider, with threads in the place of processes.

use std::{ptr::NonNull, thread, time::Duration};

use super::*;
use crate::{
    RemoteAddr,
    bootstrap::local::{Rendezvous, join, tests::invitation},
    page_size,
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
                let meeting = join(&invitation, soon()).unwrap();
                let shm = Shm::connect(meeting, soon()).unwrap();
                let region = shm.register(Arc::new(Mapping::new(len).unwrap())).unwrap();
                for peer in NodeId::all(nodes).filter(|&peer| peer != shm.node()) {
                    let object = shm.object(peer, region, soon()).unwrap();
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
fn what_is_written_is_read_by_every_node() {
    let nodes = cluster(3, 1 << 16);
    for len in [0, 1, 7, 4095, 4096, 4097, 50_000] {
        let mut bytes: Vec<u8> = (0..=250).cycle().skip(len % 7).take(len).collect();
        run(&nodes[0], Op::Write { source: NonNull::from(&mut bytes[..]), target: at(1, 77) })
            .unwrap();
        for node in &nodes {
            let mut seen = vec![0; len];
            run(node, Op::Read { source: at(1, 77), target: NonNull::from(&mut seen[..]) })
                .unwrap();
            assert_eq!(seen, bytes);
        }
    }
}

#[test]
fn atomics_return_the_value_before() {
    let nodes = cluster(2, 4096);
    for (word, target) in [(0, at(0, 8)), (1, at(1, 16))] {
        let shm = &nodes[word];
        assert_eq!(run(shm, Op::Swap { target, value: 5 }).unwrap(), 0);
        assert_eq!(run(shm, Op::FetchAdd { target, addend: 3 }).unwrap(), 5);
        assert_eq!(run(shm, Op::Swap { target, value: 9 }).unwrap(), 8);
        let swap = |expected, desired| Op::CompareSwap { target, expected, desired };
        assert_eq!(run(shm, swap(1, 7)).unwrap(), 9);
        assert_eq!(run(shm, swap(9, 7)).unwrap(), 9);
        assert_eq!(run(shm, Op::FetchAdd { target, addend: u64::MAX }).unwrap(), 7);
        assert_eq!(run(shm, Op::FetchAdd { target, addend: 0 }).unwrap(), 6);
    }
}

#[test]
fn a_request_outside_its_region_is_refused_and_changes_nothing() {
    let len = page_size();
    let nodes = cluster(2, len);
    let mut bytes = [1; 16];
    let source = NonNull::from(&mut bytes[..]);
    for offset in [len as u64 - 15, len as u64, u64::MAX - 3, u64::MAX] {
        let error = run(&nodes[0], Op::Write { source, target: at(1, offset) }).unwrap_err();
        assert!(matches!(error, Error::OutOfBounds { .. }), "{error}");
    }
    for offset in 1..8 {
        let error = run(&nodes[0], Op::FetchAdd { target: at(1, offset), addend: 1 }).unwrap_err();
        assert!(matches!(error, Error::Unaligned { .. }), "{error}");
    }
    let unknown = RemoteAddr { region: Region(2), ..at(1, 0) };
    let error = run(&nodes[0], Op::FetchAdd { target: unknown, addend: 1 }).unwrap_err();
    assert!(matches!(error, Error::UnknownRegion { .. }), "{error}");
    let mut seen = vec![9; len];
    run(&nodes[1], Op::Read { source: at(1, 0), target: NonNull::from(&mut seen[..]) }).unwrap();
    assert!(seen.iter().all(|byte| *byte == 0));
}

#[test]
fn messages_arrive_in_order_from_everybody_and_from_oneself() {
    let nodes = cluster(3, 4096);
    let mut sent = [[0; 3], [1; 3], [2; 3]];
    for (shm, bytes) in nodes.iter().zip(&mut sent) {
        for last in 0..10 {
            bytes[2] = last;
            post(shm, message(bytes, 1));
        }
    }
    let mut seen = vec![Vec::new(); 3];
    nodes[1].poll(&mut |completion| {
        if let Completion::Message { source, message } = completion {
            assert_eq!(usize::from(message[0]), source.index());
            seen[source.index()].push(message[2]);
        }
    });
    assert_eq!(seen, vec![(0..10).collect::<Vec<u8>>(); 3]);
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
