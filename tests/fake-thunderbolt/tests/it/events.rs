//! Completion channels.

use std::{io, ptr, thread};

use pangea_fake_thunderbolt::plug;
use pangea_rdma::verbs::sys::{IBV_WC_SUCCESS, ibv_comp_channel, ibv_cq};

use crate::{
    lab::{Lab, join},
    machine::{Machine, done},
    verbs::verbs,
};

/// A machine whose completion queue tells a channel.
fn listening(lab: &Lab, host: u8) -> (Machine, *mut ibv_comp_channel) {
    let mut machine = lab.host(host);
    let channel = verbs().ibv_create_comp_channel(machine.context);
    assert!(!channel.is_null());
    assert_eq!(verbs().ibv_destroy_cq(machine.queue), 0);
    let cookie = ptr::without_provenance_mut(77);
    machine.queue = verbs().ibv_create_cq(machine.context, 64, cookie, channel, 0);
    assert!(!machine.queue.is_null());
    (machine, channel)
}

fn arm(machine: &Machine) -> io::Result<()> {
    // SAFETY: the context is open.
    let arm = unsafe { (*machine.context).ops.req_notify_cq }.expect("the library arms");
    // SAFETY: the queue lives.
    done(unsafe { arm(machine.queue, 0) })
}

/// Waits for an event and acknowledges it.
fn event(channel: *mut ibv_comp_channel) -> *mut ibv_cq {
    assert!(is_readable_within(channel, 20_000), "an event comes");
    let (mut queue, mut cookie) = (ptr::null_mut(), ptr::null_mut());
    assert_eq!(verbs().ibv_get_cq_event(channel, &mut queue, &mut cookie), 0);
    assert_eq!(cookie.addr(), 77);
    verbs().ibv_ack_cq_events(queue, 1);
    queue
}

/// Whether an event can be taken.
fn is_readable(channel: *mut ibv_comp_channel) -> bool {
    is_readable_within(channel, 0)
}

fn is_readable_within(channel: *mut ibv_comp_channel, patience_ms: i32) -> bool {
    // SAFETY: the channel lives.
    let fd = unsafe { (*channel).fd };
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor, which lives during the call.
    unsafe { libc::poll(&mut poll, 1, patience_ms) == 1 }
}

/// Closes in order; a channel goes after its queue.
fn close(mut machine: Machine, channel: *mut ibv_comp_channel) {
    assert_eq!(verbs().ibv_destroy_comp_channel(channel), libc::EBUSY, "of its queue");
    assert_eq!(verbs().ibv_destroy_cq(machine.queue), 0);
    assert_eq!(verbs().ibv_destroy_comp_channel(channel), 0);
    machine.queue = verbs().ibv_create_cq(machine.context, 1, ptr::null_mut(), ptr::null_mut(), 0);
}

#[test]
fn a_channel_wakes_who_waits() {
    let lab = Lab::new(&[]);
    let (one, (other, channel)) = (lab.host(0), listening(&lab, 1));
    let (from, to) = (one.memory(4096), other.memory(4096));
    let (ours, theirs) = (one.pair(), other.pair());
    join(&one, &ours, &other, &theirs);
    for id in 0..100 {
        theirs.receive(id, to.part(0, 8)).unwrap();
        arm(&other).unwrap();
        assert!(!is_readable(channel));
        // This end waits in `ibv_get_cq_event`; nobody polls for it.
        let waiting = channel.expose_provenance();
        let queue = thread::scope(|scope| {
            let waiter = scope.spawn(move || {
                event(ptr::with_exposed_provenance_mut(waiting)).expose_provenance()
            });
            ours.send(id, from.part(0, 8)).unwrap();
            waiter.join().unwrap()
        });
        assert_eq!(queue, other.queue.addr());
        assert_eq!((other.wait().wr_id, one.wait().wr_id), (id, id));
    }
    drop((theirs, to));
    close(other, channel);
}

#[test]
fn a_sender_is_woken_by_a_receive() {
    let lab = Lab::new(&[]);
    let ((one, channel), other) = (listening(&lab, 0), lab.host(1));
    let (from, to) = (one.memory(4096), other.memory(4096));
    let (ours, theirs) = (one.pair(), other.pair());
    join(&one, &ours, &other, &theirs);
    ours.send(1, from.part(0, 8)).unwrap();
    arm(&one).unwrap();
    assert!(!is_readable(channel));
    theirs.receive(2, to.part(0, 8)).unwrap();
    assert_eq!(event(channel), one.queue);
    assert_eq!(one.wait().status, IBV_WC_SUCCESS);
    assert_eq!(other.wait().status, IBV_WC_SUCCESS);
    drop((ours, from));
    close(one, channel);
}

#[test]
fn a_sleeper_sees_a_cable_put_back() {
    let lab = Lab::new(&[]);
    let ((one, channel), other) = (listening(&lab, 0), lab.host(1));
    let (from, to) = (one.memory(4096), other.memory(4096));
    let (ours, theirs) = (one.pair(), other.pair());
    join(&one, &ours, &other, &theirs);
    // Often, so that the engine sleeps by the time of some.
    for _ in 0..200 {
        theirs.receive(2, to.part(0, 8)).unwrap();
        plug(lab.directory(), "1.en2", false).unwrap();
        ours.send(1, from.part(0, 8)).unwrap();
        arm(&one).unwrap();
        assert!(!is_readable(channel));
        plug(lab.directory(), "1.en2", true).unwrap();
        assert_eq!(event(channel), one.queue);
        assert_eq!((one.wait().wr_id, other.wait().wr_id), (1, 2));
    }
    drop((ours, from));
    close(one, channel);
}

#[test]
fn one_request_is_one_event() {
    let lab = Lab::new(&[]);
    let (one, channel) = listening(&lab, 0);
    let other = lab.host(1);
    let from = one.memory(4096);
    let (ours, theirs) = (one.pair(), other.pair());
    join(&one, &ours, &other, &theirs);
    let empty = || ours.send(1, from.part(0, 0)).unwrap();
    empty();
    assert!(!is_readable(channel), "it was not asked for");
    arm(&one).unwrap();
    arm(&one).unwrap();
    empty();
    empty();
    event(channel);
    assert!(!is_readable(channel));
    drop((ours, from));
    close(one, channel);
}

#[test]
fn an_event_is_acknowledged_before_its_queue_goes() {
    let lab = Lab::new(&[]);
    let (one, channel) = listening(&lab, 0);
    let other = lab.host(1);
    let from = one.memory(4096);
    let (ours, theirs) = (one.pair(), other.pair());
    join(&one, &ours, &other, &theirs);
    arm(&one).unwrap();
    ours.send(1, from.part(0, 0)).unwrap();
    let (mut queue, mut cookie) = (ptr::null_mut(), ptr::null_mut());
    assert_eq!(verbs().ibv_get_cq_event(channel, &mut queue, &mut cookie), 0);
    drop((ours, from));
    assert_eq!(verbs().ibv_destroy_cq(queue), libc::EBUSY);
    verbs().ibv_ack_cq_events(queue, 1);
    close(one, channel);
}

#[test]
fn channels_may_be_refused_or_silent() {
    let lab = Lab::new(&[("EVENTS", "0")]);
    let machine = lab.host(0);
    assert!(verbs().ibv_create_comp_channel(machine.context).is_null());
    assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EOPNOTSUPP));
    let lab = Lab::new(&[("EVENTS", "silent")]);
    let ((one, channel), other) = (listening(&lab, 0), lab.host(1));
    let from = one.memory(4096);
    let (ours, theirs) = (one.pair(), other.pair());
    join(&one, &ours, &other, &theirs);
    arm(&one).unwrap();
    ours.send(1, from.part(0, 0)).unwrap();
    assert_eq!(one.wait().wr_id, 1);
    assert!(!is_readable(channel));
    drop((ours, from));
    close(one, channel);
}
