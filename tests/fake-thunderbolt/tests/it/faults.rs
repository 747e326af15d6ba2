//! What goes wrong on the wire when the environment says so.

use std::fs;

use pangea_rdma::verbs::sys::{
    IBV_PORT_DOWN, IBV_WC_LOC_LEN_ERR, IBV_WC_SUCCESS, IBV_WR_SEND, ibv_port_attr,
};

use crate::{
    lab::{Lab, connected, silent},
    verbs::verbs,
};

const FRAME: usize = 4096;

/// Sends 1000 numbered messages of one frame; what arrives, by its number and with its length of
/// undamaged bytes.
fn deliver(variables: &[(&str, &str)]) -> Vec<(u32, bool)> {
    let lab = Lab::new(variables);
    let (one, other) = (lab.host(0), lab.host(1));
    let (from, to) = (one.memory(FRAME), other.memory(FRAME));
    let (ours, theirs) = connected(&one, &other);
    let mut arrived = Vec::new();
    for number in 0..1000_u32 {
        // One for the message, and one for its double.
        theirs.receive(0, to.part(0, 64)).unwrap();
        theirs.receive(0, to.part(0, 64)).unwrap();
        from.write(0, &[9; 64]);
        from.write(0, &number.to_le_bytes());
        ours.send(u64::from(number), from.part(0, 64)).unwrap();
        let sent = one.wait();
        assert_eq!((sent.wr_id, sent.status), (u64::from(number), IBV_WC_SUCCESS));
        // Each was read before the next overwrites it: there is one frame at a time, or two alike.
        while let Some(received) = other.poll() {
            assert_eq!(received.status, IBV_WC_SUCCESS);
            let bytes = to.read(0, 64);
            let number = u32::from_le_bytes(bytes[..4].try_into().unwrap());
            arrived.push((number, bytes[4..] == [9; 60]));
        }
    }
    arrived
}

#[test]
fn without_faults_all_arrives_once() {
    let expected: Vec<_> = (0..1000).map(|number| (number, true)).collect();
    assert_eq!(deliver(&[]), expected);
}

#[test]
fn a_completed_send_may_be_lost() {
    let arrived = deliver(&[("LOSS", "0.1")]);
    assert!((850..950).contains(&arrived.len()), "{}", arrived.len());
    assert!(arrived.is_sorted() && arrived.iter().all(|(_, is_whole)| *is_whole));
}

#[test]
fn frames_may_come_twice() {
    let arrived = deliver(&[("DUPLICATE", "0.1")]);
    assert!((1050..1150).contains(&arrived.len()), "{}", arrived.len());
}

#[test]
fn frames_may_be_corrupted_and_nobody_says_so() {
    let arrived = deliver(&[("CORRUPT", "0.1")]);
    let damaged = arrived.iter().filter(|(_, is_whole)| !is_whole).count();
    assert!(arrived.len() == 1000 && (50..150).contains(&damaged), "{damaged}");
}

#[test]
fn a_seed_decides_all_faults() {
    let run = |seed| deliver(&[("LOSS", "0.1"), ("DUPLICATE", "0.1"), ("SEED", seed)]);
    assert_eq!(run("1"), run("1"));
    assert_ne!(run("1"), run("2"));
}

#[test]
fn a_stalled_wire_goes_on() {
    let lab = Lab::new(&[("STALL_MS", "1")]);
    let (one, other) = (lab.host(0), lab.host(1));
    let (from, to) = (one.memory(FRAME), other.memory(FRAME));
    let (ours, theirs) = connected(&one, &other);
    for id in 0..5000 {
        theirs.receive(id, to.part(0, 8)).unwrap();
        ours.send_with(id, from.part(0, 8), IBV_WR_SEND, 0).unwrap();
        // In a stall, several may wait.
        let received = loop {
            _ = one.poll();
            if let Some(received) = other.poll() {
                break received;
            }
            std::thread::yield_now();
        };
        assert_eq!(received.wr_id, id);
    }
}

#[test]
fn a_lost_end_is_found_by_the_next_message() {
    const MESSAGES: usize = 2000;
    let lab = Lab::new(&[("LOSS", "0.3")]);
    let (one, other) = (lab.host(0), lab.host(1));
    let (from, to) = (one.memory(2 * FRAME), other.memory(MESSAGES * 2 * FRAME));
    let (ours, theirs) = connected(&one, &other);
    let (mut whole, mut mixed, mut broken) = (0, 0, 0);
    for number in 0..MESSAGES {
        theirs.receive(number as u64, to.part(number * 2 * FRAME, 2 * FRAME)).unwrap();
        from.write(0, &number.to_le_bytes());
        from.write(FRAME, &number.to_le_bytes());
        ours.send_with(0, from.part(0, 2 * FRAME), IBV_WR_SEND, 0).unwrap();
        while let Some(received) = other.poll() {
            let offset = usize::try_from(received.wr_id).unwrap() * 2 * FRAME;
            let is_one = to.read(offset, 8) == to.read(offset + FRAME, 8);
            match received.status {
                IBV_WC_SUCCESS if is_one => whole += 1,
                IBV_WC_SUCCESS => mixed += 1,
                status => {
                    assert_eq!(status, IBV_WC_LOC_LEN_ERR);
                    broken += 1;
                }
            }
        }
    }
    // Both frames arrive with 0.7 * 0.7: then in a receive of their own. One does with twice
    // 0.7 * 0.3. The end of one message and the start of the next are lost with 0.3 * 0.3, and
    // what is left of the two passes for one.
    assert!((920..1040).contains(&whole), "{whole}");
    assert!((60..120).contains(&mixed), "{mixed}");
    assert!((600..720).contains(&broken), "{broken}");
}

#[test]
fn a_pulled_cable_is_silence() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    let (from, to) = (one.memory(FRAME), other.memory(FRAME));
    let (ours, theirs) = connected(&one, &other);
    pangea_fake_thunderbolt::plug(lab.directory(), "1.en2", false).unwrap();
    theirs.receive(1, to.part(0, 8)).unwrap();
    ours.send(2, from.part(0, 8)).unwrap();
    silent(&[&one, &other]);
    // SAFETY: of integers, for which zero is valid.
    let mut attr: ibv_port_attr = unsafe { std::mem::zeroed() };
    assert_eq!(verbs().ibv_query_port(one.context, 1, &mut attr), 0);
    assert_eq!(attr.state, IBV_PORT_DOWN);
    let unconnected = one.pair().connect(other.gid(1), 1).unwrap_err();
    assert_eq!(unconnected.raw_os_error(), Some(libc::ETIMEDOUT));
    pangea_fake_thunderbolt::plug(lab.directory(), "1.en2", true).unwrap();
    assert_eq!(other.poll().map(|completion| completion.wr_id), None, "it tells of its receive");
    assert_eq!(one.wait().wr_id, 2);
    assert_eq!(other.wait().wr_id, 1);
}

#[test]
fn wires_leave_no_file_behind() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    let wires = || {
        let entries = fs::read_dir(lab.directory()).unwrap().map(Result::unwrap);
        entries.filter(|entry| entry.file_name().to_str().unwrap().starts_with("wire")).count()
    };
    let pairs = connected(&one, &other);
    assert_eq!(wires(), 1);
    drop(pairs);
    assert_eq!(wires(), 0);
}
