//! What a node says when it comes to the meeting, and what it is answered.
//!
//! ```text
//! hello   magic (8) version (2) node (2) nodes (2) page size (4) job (16), then build (4 + n)
//! ```
//!
//! The answer is a reason, or none. Numbers are little-endian.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use crate::{
    NodeId, Result,
    bootstrap::{
        Build, Job, MAGIC,
        build::{self, Agreement},
        rest::Rest,
    },
    page_size,
};

/// The version of the bootstrap and of the layout of segments.
const VERSION: u16 = 2;
/// Bytes of what comes before the build, in every version.
const HEAD_LEN: usize = 34;

/// Who a node says it is.
#[derive(Debug)]
pub(super) struct Hello {
    version: u16,
    node: NodeId,
    nodes: u16,
    page_size: u32,
    job: Job,
    build: Build,
}

impl Hello {
    pub(super) fn new(job: Job, node: NodeId, nodes: u16, build: &Build) -> Self {
        let page_size = u32::try_from(page_size()).expect("a page is small");
        Self { version: VERSION, node, nodes, page_size, job, build: build.clone() }
    }

    pub(super) fn send(&self, mut socket: &UnixStream) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(HEAD_LEN);
        bytes.extend(MAGIC);
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(self.node.number().to_le_bytes());
        bytes.extend(self.nodes.to_le_bytes());
        bytes.extend(self.page_size.to_le_bytes());
        bytes.extend(self.job.as_bytes());
        let build = self.build.encode();
        bytes.extend(u32::try_from(build.len()).expect("it has a limit").to_le_bytes());
        bytes.extend(build);
        socket.write_all(&bytes)
    }

    /// What the caller says, all of it until `deadline`.
    pub(super) fn receive(socket: &UnixStream, deadline: Instant) -> io::Result<Self> {
        let mut head = [0; HEAD_LEN];
        fill(socket, &mut head, deadline)?;
        let (magic, rest) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(invalid("not a node of Pangea"));
        }
        let u16_at = |at: usize| u16::from_le_bytes([rest[at], rest[at + 1]]);
        let page_size = u32::from_le_bytes([rest[6], rest[7], rest[8], rest[9]]);
        let job = Job::from_bytes(rest[10..].try_into().expect("the rest of a head is 16 bytes"));
        let (version, node) = (u16_at(0), NodeId::new(u16_at(2)));
        // What another version says next is not known.
        let build =
            if version == VERSION { receive_build(socket, deadline)? } else { Build::default() };
        Ok(Self { version, node, nodes: u16_at(4), page_size, job, build })
    }

    /// Which node of the job this is, or why it is none.
    pub(super) fn check(&self, job: &Job, nodes: u16) -> Result<NodeId, String> {
        let page = page_size();
        if self.version != VERSION {
            return Err(format!("it speaks version {}, the launcher {VERSION}", self.version));
        }
        if self.job != *job {
            return Err("it belongs to another job".to_owned());
        }
        if self.page_size as usize != page {
            return Err(format!("its pages have {} bytes, the launcher's {page}", self.page_size));
        }
        if self.nodes != nodes || self.node.number() >= nodes {
            return Err(format!(
                "it is {} of {}, the job has {nodes} nodes",
                self.node, self.nodes
            ));
        }
        Ok(self.node)
    }

    /// Why this node cannot work with those that came before it, all of which are in `agreement`.
    pub(super) fn agree(self, agreement: &mut Agreement) -> Result<(), String> {
        agreement.join(&self.node.to_string(), self.build)
    }
}

fn receive_build(socket: &UnixStream, deadline: Instant) -> io::Result<Build> {
    let mut len = [0; 4];
    fill(socket, &mut len, deadline)?;
    let len = usize::try_from(u32::from_le_bytes(len)).unwrap_or(usize::MAX);
    if len > build::LEN_MAX {
        return Err(invalid("a build of more than 64 KiB"));
    }
    let mut bytes = vec![0; len];
    fill(socket, &mut bytes, deadline)?;
    let mut rest = Rest(&bytes);
    let build = Build::decode(&mut rest).and_then(|build| rest.end().map(|()| build));
    build.map_err(|error| invalid(&error.to_string()))
}

/// Reads all of `bytes` until `deadline`, however they drip.
fn fill(mut socket: &UnixStream, bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match socket.read(&mut bytes[filled..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
