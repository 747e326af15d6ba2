//! What may go over which link.

use std::{io, sync::Arc};

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

/// Whether a peer is lost that sends a packet of `kind` over a link for `role`.
fn is_lost_by(role: Role, kind: Kind, len: u32) -> bool {
    let outlet = || -> Box<dyn Outlet> { Box::new(Drain) };
    let roster = Arc::new(Roster::new(NodeId::new(0), 3, None));
    let watches = vec![None, Some(outlet()), None];
    let agent = Agent::new(roster, vec![vec![], vec![outlet()], vec![outlet()]], watches);
    // One that is lost is another than who says so.
    let head = Head { len, offset: 2, ..Head::new(kind) };
    let packet = [&head.encode()[..], &vec![0; len as usize]].concat();
    let link = Link::new(PEER, Box::new(Speaker(packet)), role);
    let mut links = Links::new(vec![link], Instant::now() + BEAT);
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
