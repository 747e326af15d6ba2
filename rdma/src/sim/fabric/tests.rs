//! What the conformance suite does not ask: time, and memory after the end.

use std::ptr::NonNull;

use super::*;
use crate::{Fabric as _, Op, RemoteAddr, Token, conformance::soon};

const REGION: Region = Region(1);
const REGION_LEN: usize = 1 << 20;
const A: NodeId = NodeId::new(0);
const B: NodeId = NodeId::new(1);

/// Two nodes, of which each knows the other's region, full of ones.
fn pair(faults: Faults) -> [Fabric; 2] {
    let fabrics = Fabric::all(2, 7, Model::THUNDERBOLT_5, faults).unwrap();
    for fabric in &fabrics {
        let memory = Arc::new(Mapping::new(REGION_LEN).unwrap());
        memory.write(0, &[1; REGION_LEN]).unwrap();
        assert_eq!(fabric.register(memory).unwrap(), REGION);
    }
    for (fabric, peer) in fabrics.iter().zip([B, A]) {
        let found = fabric.region(peer, REGION, soon()).unwrap();
        assert!(matches!(found, PeerMemory::Remote(len) if len == REGION_LEN as u64));
    }
    fabrics.try_into().unwrap()
}

/// Posts a read of all that B has to each row of `targets`.
fn read_all(fabric: &Fabric, targets: &mut [Vec<u8>]) {
    let source = RemoteAddr { node: B, region: REGION, offset: 0 };
    let read = |target: &mut Vec<u8>| {
        let op = Op::Read { source, target: NonNull::from(&mut target[..]) };
        Request { token: Token(0), op }
    };
    let requests: Vec<Request> = targets.iter_mut().map(read).collect();
    // SAFETY: callers keep the targets until the fabric is gone.
    assert_eq!(unsafe { fabric.post(&requests) }.unwrap(), requests.len());
}

#[test]
fn memory_is_the_programs_again_when_its_fabric_is_dropped() {
    for dies in [false, true] {
        let [a, b] = pair(Faults::NONE);
        let mut targets = vec![vec![0; REGION_LEN]; 16];
        read_all(&a, &mut targets);
        if dies {
            let dying = thread::spawn(move || {
                let _dropped = a;
                std::panic::resume_unwind(Box::new(()));
            });
            assert!(dying.join().is_err());
        } else {
            drop(a);
        }
        targets.iter_mut().for_each(|target| target.fill(2));
        assert!(b.wait_until(soon(), &mut || b.is_lost(A)));
        let expected = if dies { Presence::Died } else { Presence::Left };
        assert_eq!(b.presence(A), expected);
        assert!(targets.iter().flatten().all(|&byte| byte == 2), "nothing is written any more");
    }
}

#[test]
fn a_request_wakes_a_world_that_sleeps() {
    const COUNT: usize = 20;
    let [a, _b] = pair(Faults::NONE);
    let target = RemoteAddr { node: B, region: REGION, offset: 0 };
    let request = Request { token: Token(1), op: Op::FetchAdd { target, addend: 1 } };
    let is_soon = |_: &usize| {
        // The world falls asleep, until the next sign of life.
        a.wait(a.epoch(), Instant::now() + Duration::from_millis(2));
        let before = a.live.cluster().now();
        // SAFETY: an atomic names no memory of this process.
        assert_eq!(unsafe { a.post(&[request]) }.unwrap(), 1);
        assert!(a.wait_until(soon(), &mut || a.has_arrived()));
        assert_eq!(a.poll(&mut |_| {}), 1);
        a.live.cluster().now().since(before) < Duration::from_millis(1)
    };
    // A machine that is busy with something else may let a sign of life come first now and then.
    let woken = (0..COUNT).filter(is_soon).count();
    assert!(woken >= COUNT / 4, "{woken} of {COUNT} did not wait for a sign of life");
}

#[test]
fn idle_time_does_not_fly() {
    let [a, _b] = pair(Faults::NONE);
    let now = || a.live.cluster().now();
    let (start, before) = (Instant::now(), now());
    assert!(!a.wait(a.epoch(), start + Duration::from_millis(200)), "nobody says anything");
    let passed = now().since(before);
    // One may have been under way before, and an answer to each comes at once.
    let most = start.elapsed() * 10 + Duration::from_secs(1);
    assert!(passed <= most, "{passed:?} passed, and at most {most:?} may have");
}

#[test]
fn a_region_that_is_not_announced_is_waited_for_until_the_deadline() {
    let [a, b] = pair(Faults::NONE);
    let error = a.region(B, Region(2), Instant::now()).unwrap_err();
    assert!(matches!(error, crate::Error::TimedOut { .. }), "{error}");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| a.region(B, Region(2), soon()));
        b.register(Arc::new(Mapping::new(4096).unwrap())).unwrap();
        assert!(matches!(waiting.join().unwrap(), Ok(PeerMemory::Remote(_))));
    });
    drop(b);
    let error = a.region(B, Region(3), soon()).unwrap_err();
    assert!(matches!(error, crate::Error::PeerLost { node: B, .. }), "{error}");
}

#[test]
fn a_way_says_what_is_simulated() {
    let [a, _b] = pair(Faults { loss: 5000, ..Faults::NONE });
    assert_eq!(a.way(A), &Way::ITSELF);
    let Way { name, reason } = a.way(B);
    assert_eq!(name, "simulated");
    let expected = "in this process, 8900 MB/s, 4.1µs away, 0.5% of frames lost, seed 7";
    assert_eq!(reason, expected);
}
