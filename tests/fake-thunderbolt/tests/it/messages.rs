//! Messages, their frames, and the receives that they fill.

use pangea_rdma::verbs::sys::{
    IBV_WC_LOC_LEN_ERR, IBV_WC_RECV, IBV_WC_SUCCESS, IBV_WR_SEND, ibv_sge,
};

use crate::lab::{Lab, connected, silent};

const FRAME: usize = 4096;

/// Bytes that are different from one place to the next.
fn pattern(seed: usize, len: usize) -> Vec<u8> {
    let byte = |index: usize| u8::try_from((seed * 7 + index + index / 251) % 256).unwrap();
    (0..len).map(byte).collect()
}

#[test]
fn a_message_arrives_whole() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    let (from, to) = (one.memory(1 << 20), other.memory(1 << 20));
    let (ours, theirs) = connected(&one, &other);
    for (id, len) in [1, 8, 4095, 4096, 4097, 16384, 100_000, 1 << 20].into_iter().enumerate() {
        let (message, id) = (pattern(id, len), id as u64);
        from.write(0, &message);
        theirs.receive(id, to.part(0, len)).unwrap();
        ours.send(id + 100, from.part(0, len)).unwrap();
        // Each end moves what it can when it is polled.
        let received = loop {
            _ = one.poll();
            if let Some(received) = other.poll() {
                break received;
            }
        };
        assert_eq!((received.wr_id, received.status), (id, IBV_WC_SUCCESS), "{len}");
        assert_eq!((received.opcode, received.byte_len as usize), (IBV_WC_RECV, len));
        assert_eq!(received.qp_num, theirs.number());
        assert!(to.read(0, len) == message, "{len}");
    }
}

#[test]
fn messages_keep_their_order_both_ways() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    let (from, to) = (one.memory(FRAME * 500), other.memory(FRAME * 500));
    let (ours, theirs) = connected(&one, &other);
    for id in 0..500 {
        let offset = FRAME * id;
        from.write(offset, &pattern(id, FRAME));
        theirs.receive(id as u64, to.part(offset, FRAME)).unwrap();
        ours.send_with(0, from.part(offset, FRAME), IBV_WR_SEND, 0).unwrap();
    }
    for id in 0..500 {
        _ = one.poll();
        let received = other.wait();
        assert_eq!((received.wr_id, received.status), (id, IBV_WC_SUCCESS));
    }
    assert!(to.read(0, FRAME * 500) == from.read(0, FRAME * 500));
    silent(&[&one, &other]);
}

#[test]
fn a_send_waits_for_a_receive() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    let (from, to) = (one.memory(FRAME), other.memory(FRAME));
    let (ours, theirs) = connected(&one, &other);
    ours.send(1, from.part(0, 8)).unwrap();
    silent(&[&one, &other]);
    theirs.receive(2, to.part(0, 8)).unwrap();
    assert_eq!(one.wait().wr_id, 1);
    assert_eq!(other.wait().wr_id, 2);
}

#[test]
fn a_send_completes_before_it_is_delivered() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    let (from, to) = (one.memory(FRAME), other.memory(FRAME));
    let (ours, theirs) = connected(&one, &other);
    theirs.receive(2, to.part(0, 8)).unwrap();
    from.write(0, &[5; 8]);
    ours.send(1, from.part(0, 8)).unwrap();
    assert_eq!(one.wait().status, IBV_WC_SUCCESS);
    assert_eq!(to.read(0, 8), [0; 8], "the peer has not looked yet");
    assert_eq!(other.wait().wr_id, 2);
    assert_eq!(to.read(0, 8), [5; 8]);
}

#[test]
fn frame_counts_must_match() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    let (from, to) = (one.memory(4 * FRAME), other.memory(4 * FRAME));
    let (ours, theirs) = connected(&one, &other);
    for (sent, posted, status) in [
        (FRAME + 1, FRAME + 1, IBV_WC_SUCCESS),
        (FRAME + 1, 2 * FRAME, IBV_WC_SUCCESS),
        (FRAME, 2 * FRAME, IBV_WC_LOC_LEN_ERR),
        (1, 4 * FRAME, IBV_WC_LOC_LEN_ERR),
        // As many frames, but more bytes than there is room for.
        (20, 10, IBV_WC_LOC_LEN_ERR),
        (3 * FRAME, 3 * FRAME, IBV_WC_SUCCESS),
    ] {
        theirs.receive(1, to.part(0, posted)).unwrap();
        ours.send(1, from.part(0, sent)).unwrap();
        assert_eq!(one.wait().status, IBV_WC_SUCCESS, "the sender does not hear of it");
        assert_eq!(other.wait().status, status, "{sent} into {posted}");
    }
    // A receive that took fewer frames than it has room for leaves no room behind.
    ours.send(1, from.part(0, 1)).unwrap();
    silent(&[&one, &other]);
}

#[test]
fn a_long_message_fills_successive_receives() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    let (from, to) = (one.memory(4 * FRAME), other.memory(4 * FRAME));
    let (ours, theirs) = connected(&one, &other);
    from.write(0, &pattern(1, 3 * FRAME));
    for id in 0..3 {
        theirs.receive(id as u64, to.part(FRAME * id, FRAME)).unwrap();
    }
    ours.send(9, from.part(0, 3 * FRAME)).unwrap();
    let statuses: Vec<_> = (0..3).map(|_| other.wait().status).collect();
    assert_eq!(statuses, [IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_LEN_ERR, IBV_WC_SUCCESS]);
    assert!(to.read(0, 3 * FRAME) == pattern(1, 3 * FRAME));
}

#[test]
fn a_queue_pair_that_is_gone_takes_nothing() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    let (from, to) = (one.memory(FRAME), other.memory(FRAME));
    let (ours, theirs) = connected(&one, &other);
    theirs.receive(1, to.part(0, FRAME)).unwrap();
    drop(theirs);
    ours.send(2, from.part(0, FRAME)).unwrap();
    silent(&[&one, &other]);
}

#[test]
fn an_empty_message_is_lost() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    let (from, to) = (one.memory(FRAME), other.memory(FRAME));
    let (ours, theirs) = connected(&one, &other);
    theirs.receive(1, to.part(0, FRAME)).unwrap();
    // Without bytes, memory is of no account.
    for nothing in [from.part(0, 0), ibv_sge::default()] {
        ours.send(2, nothing).unwrap();
        assert_eq!(one.wait().status, IBV_WC_SUCCESS);
    }
    silent(&[&one, &other]);
    ours.send(3, from.part(0, FRAME)).unwrap();
    assert_eq!(other.wait().wr_id, 1);
}

#[test]
fn an_overrun_completion_queue_is_of_no_more_use() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    let from = one.memory(FRAME);
    let (ours, _theirs) = connected(&one, &other);
    for id in 0..5000 {
        // Without bytes, they complete at once.
        ours.send(id, from.part(0, 0)).unwrap();
    }
    for id in 0..4096 {
        assert_eq!(one.wait().wr_id, id);
    }
    ours.send(0, from.part(0, 0)).unwrap();
    silent(&[&one]);
}
