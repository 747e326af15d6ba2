//! What a node says when it comes to the meeting, and what it is answered.
//!
//! ```text
//! hello   magic (8) version (2) node (2) nodes (2) page size (4) nonce (16); little-endian
//! answer  length of the reason (2), reason (UTF-8); a length of zero lets the node in
//! ```

use std::{
    fmt,
    fs::File,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use crate::{Error, NodeId, Result, page_size};

const MAGIC: [u8; 8] = *b"PANGEA\r\n";
/// The version of the bootstrap and of the layout of segments.
const VERSION: u16 = 1;
const HELLO_LEN: usize = 34;
/// Bytes of the longest reason.
const REASON_LEN_MAX: usize = 1024;

/// The random number that names a job.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Nonce([u8; 16]);

impl Nonce {
    pub(super) fn random() -> Result<Self> {
        let mut bytes = [0; 16];
        File::open("/dev/urandom")
            .and_then(|mut source| source.read_exact(&mut bytes))
            .map_err(Error::os("reading random numbers"))?;
        Ok(Self(bytes))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        let mut bytes = [0; 16];
        if digits.len() != 2 * bytes.len() || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Who a node says it is.
#[derive(Debug)]
pub(super) struct Hello {
    version: u16,
    node: NodeId,
    nodes: u16,
    page_size: u32,
    nonce: Nonce,
}

impl Hello {
    pub(super) fn new(nonce: Nonce, node: NodeId, nodes: u16) -> Self {
        let page_size = u32::try_from(page_size()).expect("a page is small");
        Self { version: VERSION, node, nodes, page_size, nonce }
    }

    pub(super) fn send(&self, mut socket: &UnixStream) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(HELLO_LEN);
        bytes.extend(MAGIC);
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(self.node.number().to_le_bytes());
        bytes.extend(self.nodes.to_le_bytes());
        bytes.extend(self.page_size.to_le_bytes());
        bytes.extend(self.nonce.0);
        socket.write_all(&bytes)
    }

    /// What the caller says, all of it until `deadline`.
    pub(super) fn receive(mut socket: &UnixStream, deadline: Instant) -> io::Result<Self> {
        let mut bytes = [0; HELLO_LEN];
        let mut filled = 0;
        while filled < HELLO_LEN {
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
        let (magic, rest) = bytes.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a node of Pangea"));
        }
        let u16_at = |at: usize| u16::from_le_bytes([rest[at], rest[at + 1]]);
        let page_size = u32::from_le_bytes([rest[6], rest[7], rest[8], rest[9]]);
        let nonce = Nonce(rest[10..].try_into().expect("the rest of a hello is 16 bytes"));
        let node = NodeId::new(u16_at(2));
        Ok(Self { version: u16_at(0), node, nodes: u16_at(4), page_size, nonce })
    }

    /// Which node of the job this is, or why it is none.
    pub(super) fn check(&self, nonce: &Nonce, nodes: u16) -> Result<NodeId, String> {
        let page = page_size();
        if self.version != VERSION {
            return Err(format!("it speaks version {}, the launcher {VERSION}", self.version));
        }
        if self.nonce != *nonce {
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
}

/// Lets a node in.
pub(super) fn accept(mut socket: &UnixStream) -> io::Result<()> {
    socket.write_all(&[0; 2])
}

/// Tells a caller why it is not let in.
pub(super) fn refuse(mut socket: &UnixStream, reason: &str) -> io::Result<()> {
    let len = u16::try_from(reason.len().min(REASON_LEN_MAX)).expect("a short text");
    socket.write_all(&len.to_le_bytes())?;
    socket.write_all(&reason.as_bytes()[..usize::from(len)])
}

/// The launcher's answer: `None`, or why this process is not let in.
pub(super) fn answer(mut socket: &UnixStream) -> io::Result<Option<String>> {
    let mut len = [0; 2];
    socket.read_exact(&mut len)?;
    let len = usize::from(u16::from_le_bytes(len));
    if len == 0 {
        return Ok(None);
    }
    let mut reason = vec![0; len.min(REASON_LEN_MAX)];
    socket.read_exact(&mut reason)?;
    Ok(Some(String::from_utf8_lossy(&reason).into_owned()))
}
