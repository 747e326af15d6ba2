//! Threads that stand aside while another leads.

use std::{hint, ptr::NonNull};

use super::*;
use crate::{
    Op, Token,
    conformance::{meetings, plain, soon},
    roster::Departure,
};

/// Two nodes on one host, and one on another.
fn cluster() -> Vec<Paths> {
    let choice = Choice { path: Path::Auto, requires_rdma: false };
    let meetings = meetings(3, &|node| node / 2, &plain);
    thread::scope(|scope| {
        let connect =
            |meeting| scope.spawn(move || Paths::connect(meeting, choice, soon()).unwrap());
        let connects: Vec<_> = meetings.into_iter().map(connect).collect();
        connects.into_iter().map(|connect| connect.join().unwrap()).collect()
    })
}

fn is_in_time(mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() && Instant::now() < deadline {
        hint::spin_loop();
        thread::yield_now();
    }
    is_so()
}

/// Checks that what happens while a leader looks wakes who stands aside before the leader blocks.
fn check(happen: impl Fn(&[Paths])) {
    let nodes = cluster();
    let node = &nodes[0];
    thread::scope(|scope| {
        let mut aside = None;
        let mut is_told = None;
        node.wait_until(soon(), &mut || match &aside {
            // It does not lead yet.
            _ if !node.wires.lead.is_taken() => false,
            None => {
                let epoch = node.epoch();
                aside = Some(scope.spawn(move || node.wait(epoch, soon())));
                assert!(is_in_time(|| node.vacant.sleepers().0 > 0), "it stands aside");
                happen(&nodes);
                false
            }
            Some(aside) => {
                // Its last look before it blocks for the first time.
                if is_told.is_none() && node.shm.is_listening() {
                    is_told = Some(is_in_time(|| aside.is_finished()));
                }
                is_told.is_some()
            }
        });
        assert_eq!(is_told, Some(true), "it sleeps on");
        assert!(aside.expect("it was started").join().unwrap(), "there is something for it");
    });
}

#[test]
fn a_message_on_this_host_wakes_who_stands_aside_before_the_leader_blocks() {
    check(|nodes| {
        let mut message = [1, 2];
        let op = Op::Send { target: nodes[0].node(), message: NonNull::from(&mut message[..]) };
        // SAFETY: a message on one host is copied before `post` returns.
        assert_eq!(unsafe { nodes[1].post(&[Request { token: Token(1), op }]) }.unwrap(), 1);
    });
}

#[test]
fn a_loss_wakes_who_stands_aside_before_the_leader_blocks() {
    check(|nodes| assert!(nodes[0].roster.lose(nodes[2].node(), Departure::Died)));
}
