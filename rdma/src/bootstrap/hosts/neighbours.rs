//! The nodes of one host meet at a Unix socket, if all of them can get there.

use std::{
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use super::{
    guest::Guest,
    message::{self, Card},
};
use crate::{
    NodeId, Result,
    bootstrap::{
        Build, Meeting,
        local::{self, Rendezvous},
    },
};

/// How long the nodes of a host may take to meet: all of them are there already.
const PATIENCE: Duration = Duration::from_secs(10);

const YES: [u8; 1] = [1];
const NO: [u8; 1] = [0];

/// The nodes that meet on this host.
#[derive(Debug)]
pub(super) struct Neighbours {
    nodes: Vec<NodeId>,
    // Between all nodes, by node; `None` where this one has not met its neighbours.
    sockets: Option<Vec<Option<UnixStream>>>,
}

/// Meets the nodes of this host by the way that `guest` has to all. Nodes that cannot reach each
/// other's files (they run as other users, or see other file systems) go without sockets.
pub(super) fn meet(guest: &mut Guest, own: NodeId, cards: &[Card]) -> Result<Neighbours> {
    let host = &cards[own.index()].host;
    let group = NodeId::all(guest.nodes()).filter(|node| cards[node.index()].host == *host);
    let group: Vec<NodeId> = group.collect();
    let host_of_all = group[0];
    let rendezvous = (own == host_of_all && group.len() > 1)
        .then(|| Rendezvous::new(u16::try_from(group.len()).expect("a part of all nodes")).ok())
        .flatten();
    let letter = rendezvous.as_ref().map(Rendezvous::place);
    let letter = letter.map(|(job, path)| message::encode_letter(&job, &path));
    let letters = guest.share(&letter.unwrap_or_default())?;
    let place = message::decode_letter(&letters[host_of_all.index()]);
    let place = place.filter(|(_, path)| local::is_reachable(path));
    let reaches = guest.share(if place.is_some() { &YES } else { &NO })?;
    let mut nodes = group;
    nodes.retain(|node| reaches[node.index()] == YES);
    let index = nodes.iter().position(|node| *node == own);
    let (Some(index), Some((job, path)), true) = (index, place, nodes.len() > 1) else {
        return Ok(Neighbours { nodes: vec![own], sockets: Some(none(cards.len())) });
    };
    let part = [index, nodes.len()].map(|number| u16::try_from(number).expect("few nodes"));
    let invitation = local::Invitation::to(path, job, NodeId::new(part[0]), part[1]);
    let deadline = guest.deadline().min(Instant::now() + PATIENCE);
    // The coordinator has seen to it that their builds agree.
    let agreed = Build::default();
    let met = match rendezvous {
        Some(rendezvous) => local::host(rendezvous.among(part[1]), &invitation, &agreed, deadline),
        None => local::join(&invitation, &agreed, deadline),
    };
    let sockets = met.ok().map(|meeting| spread(meeting, &nodes, cards.len()));
    Ok(Neighbours { nodes, sockets })
}

impl Neighbours {
    /// What this node tells the others.
    pub(super) fn verdict(&self) -> [u8; 1] {
        if self.sockets.is_some() { YES } else { NO }
    }

    /// The sockets, by node. One neighbour without its ends is as good as none with theirs.
    pub(super) fn into_sockets(self, verdicts: &[Vec<u8>]) -> Vec<Option<UnixStream>> {
        let is_met = self.nodes.iter().all(|node| verdicts[node.index()] == YES);
        self.sockets.filter(|_| is_met).unwrap_or_else(|| none(verdicts.len()))
    }
}

/// The sockets of a meeting of `members`, among those of `nodes` nodes.
fn spread(meeting: Meeting, members: &[NodeId], nodes: usize) -> Vec<Option<UnixStream>> {
    let mut sockets = none(nodes);
    for (member, socket) in members.iter().zip(meeting.sockets) {
        sockets[member.index()] = socket;
    }
    sockets
}

fn none(nodes: usize) -> Vec<Option<UnixStream>> {
    (0..nodes).map(|_| None).collect()
}
