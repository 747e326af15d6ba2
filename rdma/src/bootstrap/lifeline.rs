//! How a launcher learns whom its nodes have lost.
//!
//! What a node came to the meeting by stays open: by it the node names every other that it loses,
//! and, from another host, the ways that it has found.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{channel::Channel, local::NODES_MAX};
use crate::{Error, NodeId, Result};

/// How long the other end may take for the few bytes of a loss.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of the longest report from another host.
const REPORT_LEN_MAX: usize = 60 << 10;

/// What a report from another host begins with.
const LOSS: u8 = 0;
const WAYS: u8 = 1;

/// One end of what joins a node and its launcher.
#[derive(Debug)]
pub(crate) enum Lifeline {
    /// On one host.
    Local(UnixStream),
    /// From host to host.
    Remote(Mutex<Remote>),
}

/// One end from host to host.
#[derive(Debug)]
pub(crate) struct Remote {
    channel: Channel,
    // Losses that came while something else was waited for.
    losses: Vec<NodeId>,
}

impl Remote {
    /// The next report, until `deadline` at most; the text, if it is of ways.
    fn receive(&mut self, deadline: Instant) -> Result<Option<String>> {
        let report = self.channel.receive(REPORT_LEN_MAX, deadline)?;
        match *report {
            [LOSS, low, high] => self.losses.push(NodeId::new(u16::from_le_bytes([low, high]))),
            [WAYS, ref text @ ..] => return Ok(Some(String::from_utf8_lossy(text).into_owned())),
            _ => return Err(Error::protocol("a report that is neither of a loss nor of ways")),
        }
        Ok(None)
    }
}

impl Lifeline {
    /// Tells the launcher that this node has lost `node`. A launcher that is gone need not know.
    pub(crate) fn report(&self, node: NodeId) {
        let number = node.number().to_le_bytes();
        match self {
            Self::Local(socket) => _ = (&*socket).write_all(&number),
            Self::Remote(end) => {
                let report = [&[LOSS], &number[..]].concat();
                _ = lock(end).channel.send(&report, Instant::now() + PATIENCE);
            }
        }
    }

    /// Tells the launcher on another host by which ways this node reaches its peers, a line each.
    pub(crate) fn report_ways(&self, ways: &str) {
        if let Self::Remote(end) = self {
            let len = ways.floor_char_boundary(REPORT_LEN_MAX - 1);
            let report = [&[WAYS], &ways.as_bytes()[..len]].concat();
            _ = lock(end).channel.send(&report, Instant::now() + PATIENCE);
        }
    }

    /// The ways that the other end reports, until `deadline` at most.
    fn take_ways(&self, deadline: Instant) -> Option<String> {
        let Self::Remote(end) = self else { return None };
        let mut end = lock(end);
        loop {
            if let Some(ways) = end.receive(deadline).ok()? {
                return Some(ways);
            }
        }
    }

    /// What the other end has reported since it was last asked.
    fn take_reports(&self) -> Vec<NodeId> {
        let mut bytes = Vec::new();
        match self {
            Self::Local(socket) => {
                let mut buffer = [0; 2 * NODES_MAX as usize];
                let read = socket.set_nonblocking(true).and_then(|()| (&*socket).read(&mut buffer));
                bytes.extend(&buffer[..read.unwrap_or(0)]);
            }
            Self::Remote(end) => {
                let mut end = lock(end);
                let deadline = Instant::now() + PATIENCE;
                // Ends with an error where the node has gone.
                while end.channel.has_input()
                    && end.losses.len() < usize::from(NODES_MAX)
                    && end.receive(deadline).is_ok()
                {}
                return std::mem::take(&mut end.losses);
            }
        }
        let (pairs, _) = bytes.as_chunks::<2>();
        pairs.iter().map(|pair| NodeId::new(u16::from_le_bytes(*pair))).collect()
    }
}

impl From<Channel> for Lifeline {
    fn from(channel: Channel) -> Self {
        Self::Remote(Mutex::new(Remote { channel, losses: Vec::new() }))
    }
}

/// The launcher's ends, by which the nodes say whom they have lost.
#[derive(Debug)]
pub struct Lifelines {
    // By node.
    ends: Vec<Lifeline>,
}

impl Lifelines {
    /// Those of all nodes, in order.
    pub(super) fn new(ends: Vec<Lifeline>) -> Self {
        Self { ends }
    }

    /// By which ways the nodes of other hosts reach their peers: a line each, until `deadline` at
    /// most.
    pub fn take_ways(&self, deadline: Instant) -> Vec<(NodeId, String)> {
        let ends = NodeId::all(u16::MAX).zip(&self.ends);
        ends.filter_map(|(node, end)| Some((node, end.take_ways(deadline)?))).collect()
    }

    /// The nodes that `node` has lost since it was last asked. A node that failed without having
    /// lost another failed by itself.
    pub fn take_losses(&self, node: NodeId) -> Vec<NodeId> {
        self.ends.get(node.index()).map_or_else(Vec::new, Lifeline::take_reports)
    }
}

/// What was left whole by a thread that panicked with it, as every step is.
fn lock(end: &Mutex<Remote>) -> MutexGuard<'_, Remote> {
    end.lock().unwrap_or_else(PoisonError::into_inner)
}
