//! How the nodes of a job find and trust each other.
//!
//! Whoever starts the nodes tells them by environment variables where to meet ([`Invitation`]): on
//! one host at a socket in a private directory ([`local`]), on several at a coordinator
//! ([`hosts`]), which lets in who has the cluster's [`Key`]. They come back with a [`Meeting`]: a
//! way to every peer.

mod build;
mod bytes;
mod channel;
mod connection;
mod environment;
mod host;
pub mod hosts;
mod interfaces;
mod job;
mod key;
mod lifeline;
pub mod local;
mod noise;
mod race;
mod reason;
mod reception;
mod rest;
mod timed;

use std::{os::unix::net::UnixStream, time::Instant};

use self::environment::Environment;
#[cfg(all(test, not(loom)))]
pub(crate) use self::noise::cipher::ciphers;
pub use self::{
    build::Build,
    job::Job,
    key::{KEY, KEY_FILE, Key},
    lifeline::Lifelines,
};
pub(crate) use self::{
    connection::Connection,
    lifeline::Lifeline,
    noise::cipher::{HEAD_LEN, Opener, PLAIN_LEN_MAX, Sealer},
};
use crate::{NodeId, Result};

/// What every conversation between nodes begins with.
const MAGIC: [u8; 8] = *b"PANGEA\r\n";

/// Nodes that have met: who this one is, and its ways to the others.
#[derive(Debug)]
pub struct Meeting {
    pub(crate) node: NodeId,
    pub(crate) nodes: u16,
    // By node, as what follows; `None` for this one, and for those of other hosts.
    pub(crate) sockets: Vec<Option<UnixStream>>,
    // `None` for this one; for all where the nodes have met on one host.
    pub(crate) connections: Vec<Option<Connection>>,
    // The names of the nodes' hosts, for people.
    pub(crate) hosts: Vec<String>,
    // To the launcher, who is told of every node that this one loses.
    pub(crate) lifeline: Option<Lifeline>,
}

impl Meeting {
    /// The meeting of a node with itself.
    pub fn alone() -> Self {
        Self::on_this_host(NodeId::new(0), vec![None], None)
    }

    /// The meeting of nodes that hold the ends of `sockets`.
    fn on_this_host(
        node: NodeId,
        sockets: Vec<Option<UnixStream>>,
        lifeline: Option<Lifeline>,
    ) -> Self {
        let nodes = u16::try_from(sockets.len()).expect("nodes are numbered by u16");
        let connections = sockets.iter().map(|_| None).collect();
        let hosts = vec![host::label(); sockets.len()];
        Self { node, nodes, sockets, connections, hosts, lifeline }
    }

    /// Which node this one is.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Whether every peer can be reached by shared memory.
    pub fn is_on_one_host(&self) -> bool {
        let is_near = |(peer, socket): (usize, &Option<UnixStream>)| {
            socket.is_some() || peer == self.node.index()
        };
        self.sockets.iter().enumerate().all(is_near)
    }

    /// How many have met.
    pub fn nodes(&self) -> u16 {
        self.nodes
    }
}

/// Where this process is to meet its peers, and which of them it is to be.
#[derive(Clone, Debug)]
pub enum Invitation {
    /// All are on this host.
    Local(local::Invitation),
    /// They may be on others.
    Hosts(hosts::Invitation),
}

impl Invitation {
    /// Reads what Pangea's launcher, `mpirun` or `srun` has put into the environment; `None` where
    /// this process was started by itself.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](crate::Error::Config) where it was not, but cannot find the others.
    pub fn from_env() -> Result<Option<Self>> {
        if let Some(invitation) = local::Invitation::from_env()? {
            return Ok(Some(Self::Local(invitation)));
        }
        environment::invitation(&Environment::of_process())
    }

    /// Which node this process is to be.
    pub fn node(&self) -> NodeId {
        match self {
            Self::Local(invitation) => invitation.node(),
            Self::Hosts(invitation) => invitation.node(),
        }
    }
}

/// Goes to the meeting, and returns when all are there. `build` is what they must agree on.
pub fn join(invitation: &Invitation, build: &Build, deadline: Instant) -> Result<Meeting> {
    match invitation {
        Invitation::Local(invitation) => local::join(invitation, build, deadline),
        Invitation::Hosts(invitation) => hosts::join(invitation, build, deadline),
    }
}
