//! What may go over which link.

use std::{cell::RefCell, io, sync::Arc};

use super::*;
use crate::{
    Result,
    packet::{HEAD_LEN, Head},
    roster::Roster,
    stream::{Assembler, Inbox, Outlet, Source},
};

const PEER: NodeId = NodeId::new(1);

/// Takes everything, and brings it nowhere.
#[derive(Debug)]
struct Drain;

impl Outlet for Drain {
    fn push(&mut self, _: &[u8; HEAD_LEN], payload: Source, _: usize) -> io::Result<usize> {
        Ok(HEAD_LEN + payload.len())
    }

    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn close(&mut self) {}
}

/// Has something to say, once.
#[derive(Debug)]
struct Speaker(Vec<u8>);

impl Inlet for Speaker {
    fn receive(&mut self, inbox: &mut dyn Inbox) -> Result<usize> {
        let bytes = mem::take(&mut self.0);
        Assembler::new().feed(&bytes, inbox)?;
        Ok(bytes.len())
    }
}

thread_local! {
    /// What people were told.
    static TOLD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn tell(peer: NodeId, what: &str) {
    TOLD.with_borrow_mut(|told| told.push(format!("{peer}: {what}")));
}

/// An agent of three nodes, and a link for `role` to its peer, which says `packet`, then nothing.
fn stage(role: Role, packet: Vec<u8>) -> (Agent, Links) {
    let outlet = || -> Box<dyn Outlet> { Box::new(Drain) };
    let roster = Arc::new(Roster::new(NodeId::new(0), 3, None));
    let watches = vec![None, Some(outlet()), None];
    let agent = Agent::new(roster, vec![vec![], vec![outlet()], vec![outlet()]], watches);
    let link = Link::new(PEER, Box::new(Speaker(packet)), role);
    (agent, Links::new(vec![link], Instant::now(), tell))
}

/// Whether a peer is lost that sends a packet of `kind` over a link for `role`.
fn is_lost_by(role: Role, kind: Kind, len: u32) -> bool {
    // One that is lost is another than who says so.
    let head = Head { len, offset: 2, ..Head::new(kind) };
    let packet = [&head.encode()[..], &vec![0; len as usize]].concat();
    let (agent, mut links) = stage(role, packet);
    links.read(&agent, |_| true, &mut |_| {});
    agent.has_lost(PEER)
}

#[test]
fn a_watch_carries_signs_of_life_and_death_alone() {
    for kind in [Kind::Beat, Kind::Lost] {
        assert!(!is_lost_by(Role::Watch, kind, 0), "{kind:?}");
    }
    for (kind, len) in [(Kind::Message, 5), (Kind::Write, 8), (Kind::Signal, 8), (Kind::Region, 8)]
    {
        assert!(is_lost_by(Role::Watch, kind, len), "{kind:?}");
        assert!(!is_lost_by(Role::Main, kind, len), "{kind:?}");
    }
    // Of no request, which the main link refuses too.
    for (kind, len) in [(Kind::Done, 0), (Kind::Refused, 32), (Kind::Bytes, 0)] {
        assert!(is_lost_by(Role::Watch, kind, len), "{kind:?}");
    }
}

#[test]
fn people_are_told_why_a_peer_is_lost() {
    assert!(is_lost_by(Role::Watch, Kind::Message, 5));
    let (agent, mut links) = stage(Role::Main, Vec::new());
    let mut now = Instant::now();
    while !agent.has_lost(PEER) {
        now += BEAT;
        links.beat(&agent, now, &mut |_| {});
    }
    let told = TOLD.take();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("node 1: protocol error: "), "{told:?}");
    assert_eq!(told[1], "node 1: nothing has come for 3s");
}
