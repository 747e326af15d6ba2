//! Connecting queue pairs, and taking things down.

use std::io;

use pangea_rdma::{
    page_size,
    verbs::sys::{
        IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_MTU_4096, IBV_QP_ACCESS_FLAGS,
        IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_TIMEOUT, IBV_QPS_ERR, IBV_QPS_INIT, IBV_QPS_RESET,
        IBV_QPS_RTS, IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS,
        IBV_WC_WR_FLUSH_ERR, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE,
        IBV_WR_SEND, ibv_gid, ibv_qp_attr,
    },
};

use crate::{
    lab::{Lab, connected, join, silent},
    verbs::verbs,
};

fn refused<T>(result: io::Result<T>) -> Option<i32> {
    result.err().expect("it is refused").raw_os_error()
}

#[test]
fn only_the_other_end_of_the_cable_is_reached() {
    let lab = Lab::new(&[("CABLES", "0.en2-1.en2,0.en3-2.en2")]);
    let (one, other, far) = (lab.host(0), lab.host(1), lab.host(2));
    let reach = |gid| {
        let ours = one.pair();
        ours.init().unwrap();
        ours.ready_to_receive(gid, other.pair().number())
    };
    reach(other.gid(1)).unwrap();
    // Its own host's other cable leads there, this one does not.
    assert_eq!(refused(reach(far.gid(1))), Some(libc::ETIMEDOUT));
    assert_eq!(refused(reach(one.gid(1))), Some(libc::ETIMEDOUT));
    assert_eq!(refused(reach(ibv_gid::default())), Some(libc::EINVAL));
}

#[test]
fn a_link_local_address_is_found_once_warm() {
    for (claims, answer) in [("cold-neighbours", Some(libc::ETIMEDOUT)), ("", None)] {
        let lab = Lab::new(&[("CLAIMS", claims)]);
        let (one, other) = (lab.host(0), lab.host(1));
        for index in [0, 2] {
            let (ours, theirs) = (one.pair(), other.pair());
            ours.init().unwrap();
            let reached = ours.ready_to_receive(other.gid(index), theirs.number());
            assert_eq!(reached.err().and_then(|error| error.raw_os_error()), answer);
        }
    }
}

#[test]
fn states_follow_each_other_with_their_attributes() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    let ours = one.pair();
    let memory = one.memory(4096);
    assert_eq!(refused(ours.ready_to_send()), Some(libc::EINVAL), "from RESET");
    assert_eq!(refused(ours.receive(1, memory.part(0, 1))), Some(libc::EINVAL), "in RESET");
    let init = ibv_qp_attr { qp_state: IBV_QPS_INIT, port_num: 1, ..Default::default() };
    let mask = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    assert_eq!(refused(ours.modify(init, mask)), Some(libc::EINVAL), "access flags are missing");
    let too_much = mask | IBV_QP_ACCESS_FLAGS | IBV_QP_TIMEOUT;
    assert_eq!(
        refused(ours.modify(init, too_much)),
        Some(libc::EINVAL),
        "RC has a timeout, not UC"
    );
    let port = ibv_qp_attr { port_num: 2, ..init };
    let mask = mask | IBV_QP_ACCESS_FLAGS;
    assert_eq!(refused(ours.modify(port, mask)), Some(libc::EINVAL), "there is one port");
    ours.init().unwrap();
    assert_eq!(refused(ours.send(1, memory.part(0, 1))), Some(libc::EINVAL), "in INIT");
    ours.ready_to_receive(other.gid(1), 5).unwrap();
    ours.ready_to_send().unwrap();
    let attr = ours.query();
    assert_eq!((attr.qp_state, attr.dest_qp_num, attr.path_mtu), (IBV_QPS_RTS, 5, IBV_MTU_4096));
}

#[test]
fn what_is_posted_is_flushed_in_an_error() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    let memory = one.memory(4096);
    let (ours, _theirs) = connected(&one, &other);
    ours.receive(1, memory.part(0, 1)).unwrap();
    ours.send_with(2, memory.part(0, 1), IBV_WR_SEND, 0).unwrap();
    let to = |qp_state| ibv_qp_attr { qp_state, ..Default::default() };
    ours.modify(to(IBV_QPS_ERR), 0).unwrap();
    for id in [1, 2] {
        let flushed = one.wait();
        assert_eq!((flushed.wr_id, flushed.status), (id, IBV_WC_WR_FLUSH_ERR));
    }
    ours.modify(to(IBV_QPS_RESET), 0).unwrap();
    silent(&[&one]);
}

#[test]
fn one_sided_operations_are_refused() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    let memory = one.memory(4096);
    let (ours, _theirs) = connected(&one, &other);
    for opcode in [IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD] {
        let posted = ours.send_with(1, memory.part(0, 8), opcode, IBV_SEND_SIGNALED);
        assert_eq!(refused(posted), Some(libc::EOPNOTSUPP));
    }
    let inline = ours.send_with(1, memory.part(0, 8), IBV_WR_SEND, IBV_SEND_INLINE);
    assert_eq!(refused(inline), Some(libc::EINVAL));
}

#[test]
fn a_region_must_come_before_the_connection() {
    for (claims, status) in [("regions-first", IBV_WC_LOC_PROT_ERR), ("", IBV_WC_SUCCESS)] {
        let lab = Lab::new(&[("CLAIMS", claims)]);
        let (one, other) = (lab.host(0), lab.host(1));
        let (from, to) = (one.memory(4096), other.memory(4096));
        let (ours, theirs) = connected(&one, &other);
        let (late_from, late_to) = (one.memory(4096), other.memory(4096));
        theirs.receive(1, to.part(0, 8)).unwrap();
        ours.send(1, late_from.part(0, 8)).unwrap();
        assert_eq!(one.wait().status, status);
        ours.receive(3, from.part(0, 8)).unwrap();
        theirs.send(2, to.part(0, 8)).unwrap();
        assert_eq!(one.wait().status, IBV_WC_SUCCESS);
        ours.receive(4, late_from.part(0, 8)).unwrap();
        theirs.send(5, late_to.part(0, 8)).unwrap();
        theirs.send(6, to.part(0, 8)).unwrap();
        assert_eq!(one.wait().status, status);
    }
}

#[test]
fn memory_is_used_within_its_region_only() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    let memory = one.memory(2 * page_size());
    let read_only = one.register(std::ptr::without_provenance_mut(page_size()), 4096, 0).unwrap();
    let (ours, theirs) = connected(&one, &other);
    let to = other.memory(4096);
    ours.send(1, memory.part(2 * page_size() - 4, 8)).unwrap();
    assert_eq!(one.wait().status, IBV_WC_LOC_PROT_ERR);
    // The peer's fault is the peer's: what is sent leaves all the same.
    ours.receive(2, read_only.part(0, 8)).unwrap();
    assert_eq!(to.read(0, 1), [0]);
    drop((ours, theirs));
    let (ours, theirs) = connected(&one, &other);
    ours.receive(3, read_only.part(0, 8)).unwrap();
    theirs.send(4, to.part(0, 8)).unwrap();
    assert_eq!(other.wait().status, IBV_WC_SUCCESS);
    assert_eq!(one.wait().status, IBV_WC_LOC_PROT_ERR);
}

#[test]
fn receives_before_rts_may_be_refused() {
    for (claims, answer) in [("ready-first", Some(libc::EINVAL)), ("", None)] {
        let lab = Lab::new(&[("CLAIMS", claims)]);
        let (one, other) = (lab.host(0), lab.host(1));
        let (from, to) = (one.memory(4096), other.memory(4096));
        let (ours, theirs) = (one.pair(), other.pair());
        theirs.init().unwrap();
        let posted = theirs.receive(1, to.part(0, 8));
        assert_eq!(posted.err().and_then(|error| error.raw_os_error()), answer);
        theirs.ready_to_receive(one.gid(1), ours.number()).unwrap();
        theirs.ready_to_send().unwrap();
        if answer.is_some() {
            theirs.receive(1, to.part(0, 8)).unwrap();
        }
        ours.connect(other.gid(1), theirs.number()).unwrap();
        ours.send(2, from.part(0, 8)).unwrap();
        assert_eq!(other.wait().status, IBV_WC_SUCCESS);
    }
}

#[test]
fn local_regions_may_be_refused() {
    let lab = Lab::new(&[("CLAIMS", "remote-access")]);
    let machine = lab.host(0);
    let address = std::ptr::without_provenance_mut(page_size());
    let local = machine.register(address, 4096, IBV_ACCESS_LOCAL_WRITE);
    assert_eq!(refused(local), Some(libc::EINVAL));
    let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    machine.register(address, 4096, access).unwrap();
}

#[test]
fn parents_outlive_their_children() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.host(0), lab.host(1));
    let memory = one.memory(4096);
    assert_eq!(verbs().ibv_dealloc_pd(one.domain), libc::EBUSY, "of a region");
    drop(memory);
    let (ours, theirs) = (one.pair(), other.pair());
    join(&one, &ours, &other, &theirs);
    assert_eq!(verbs().ibv_dealloc_pd(one.domain), libc::EBUSY, "of a queue pair");
    assert_eq!(verbs().ibv_destroy_cq(one.queue), libc::EBUSY);
    assert_eq!(verbs().ibv_close_device(one.context), libc::EBUSY);
}
