//! What is said at a meeting, as bytes. All of it comes from others: nothing here trusts a length.
//!
//! ```text
//! hello         node (2) nodes (2) page size (4) build (see `Build`) card
//! card          host (1 + n) label (1 + n) addresses (1), each:
//!               family (1) address (4 or 16) port (2)
//! said          0, content; or 1, why the node cannot join
//! table         0, entries (2), each: length (4) content; or 1, why there is no meeting
//! introduction  node that calls (2) node that is called (2)
//! letter        job (16) path of a socket; or nothing
//! ```
//!
//! Numbers are little-endian. An answer to an introduction is a table without entries.

use std::{
    ffi::OsString,
    net::{IpAddr, SocketAddr},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use crate::{
    Error, NodeId, Result,
    bootstrap::{Build, Job, build, noise::preamble::Preamble, reason, rest::Rest},
};

/// Bytes of the longest text in a card.
const TEXT_LEN_MAX: usize = 255;
/// Addresses at which a node may listen.
pub(super) const ADDRESSES_MAX: usize = 64;
/// Bytes of the longest thing that a node says.
pub(super) const SAID_LEN_MAX: usize = 4096;
/// Bytes of the longest hello.
pub(super) const HELLO_LEN_MAX: usize = SAID_LEN_MAX + build::LEN_MAX;
/// Characters of the longest reason: each may take four bytes.
pub(super) const REASON_CHARS_MAX: usize = 1000;
/// Bytes of an introduction.
pub(super) const INTRODUCTION_LEN: usize = 4;

const YES: u8 = 0;
const NO: u8 = 1;

/// Who a node says it is.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Hello {
    pub(super) node: NodeId,
    pub(super) nodes: u16,
    pub(super) page_size: u32,
    pub(super) build: Build,
    // For the other nodes: no matter to the coordinator.
    pub(super) card: Vec<u8>,
}

impl Hello {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.node.number().to_le_bytes());
        bytes.extend(self.nodes.to_le_bytes());
        bytes.extend(self.page_size.to_le_bytes());
        bytes.extend(self.build.encode());
        bytes.extend(&self.card);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut rest = Rest(bytes);
        Ok(Self {
            node: NodeId::new(rest.u16()?),
            nodes: rest.u16()?,
            page_size: u32::from_le_bytes(rest.array()?),
            build: Build::decode(&mut rest)?,
            card: rest.0.to_vec(),
        })
    }
}

/// What a node tells the others of itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Card {
    // Nodes whose hosts are the same may share memory.
    pub(super) host: String,
    // For people.
    pub(super) label: String,
    pub(super) addresses: Vec<SocketAddr>,
}

impl Card {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for text in [&self.host, &self.label] {
            let text = &text.as_bytes()[..text.len().min(TEXT_LEN_MAX)];
            bytes.push(u8::try_from(text.len()).expect("a short text"));
            bytes.extend(text);
        }
        let addresses = &self.addresses[..self.addresses.len().min(ADDRESSES_MAX)];
        bytes.push(u8::try_from(addresses.len()).expect("few addresses"));
        for address in addresses {
            match address.ip() {
                IpAddr::V4(address) => bytes.extend([&[4], &address.octets()[..]].concat()),
                IpAddr::V6(address) => bytes.extend([&[6], &address.octets()[..]].concat()),
            }
            bytes.extend(address.port().to_le_bytes());
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut rest = Rest(bytes);
        let (host, label) = (rest.text()?, rest.text()?);
        let count = usize::from(rest.u8()?);
        if count > ADDRESSES_MAX {
            return Err(Error::protocol(format!("{count} addresses; {ADDRESSES_MAX} are allowed")));
        }
        let addresses = (0..count).map(|_| rest.address()).collect::<Result<_>>()?;
        rest.end()?;
        Ok(Self { host, label, addresses })
    }
}

/// A node's content for a table, or why it cannot join.
pub(super) fn encode_said(content: Result<&[u8], &str>) -> Vec<u8> {
    match content {
        Ok(content) => [&[YES], content].concat(),
        Err(reason) => [&[NO], reason.as_bytes()].concat(),
    }
}

pub(super) fn decode_said(bytes: &[u8]) -> Result<Result<&[u8], String>> {
    match bytes.split_first() {
        Some((&YES, content)) => Ok(Ok(content)),
        Some((&NO, reason)) => Ok(Err(reason::printable(reason))),
        _ => Err(Error::protocol("neither content nor a reason")),
    }
}

/// What all have said, by node; or why there is no meeting.
pub(super) fn encode_table(entries: Result<&[Vec<u8>], &str>) -> Vec<u8> {
    let entries = match entries {
        Ok(entries) => entries,
        Err(reason) => return encode_said(Err(reason)),
    };
    let mut bytes = vec![YES];
    bytes.extend(u16::try_from(entries.len()).expect("nodes are numbered by u16").to_le_bytes());
    for entry in entries {
        bytes.extend(u32::try_from(entry.len()).expect("an entry is short").to_le_bytes());
        bytes.extend(entry);
    }
    bytes
}

/// A table of `nodes` entries.
pub(super) fn decode_table(bytes: &[u8], nodes: u16) -> Result<Result<Vec<Vec<u8>>, String>> {
    let content = match decode_said(bytes)? {
        Ok(content) => content,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut rest = Rest(content);
    let count = rest.u16()?;
    if count != nodes {
        return Err(Error::protocol(format!("a table of {count} entries; {nodes} were expected")));
    }
    let mut entry = |_| {
        let len = u32::from_le_bytes(rest.array()?);
        Ok(rest.bytes(usize::try_from(len).unwrap_or(usize::MAX))?.to_vec())
    };
    let entries = (0..nodes).map(&mut entry).collect::<Result<_>>()?;
    rest.end()?;
    Ok(Ok(entries))
}

/// Bytes of the longest table of `nodes` entries.
pub(super) fn table_len_max(nodes: u16) -> usize {
    3 + usize::from(nodes) * (4 + SAID_LEN_MAX)
}

pub(super) fn encode_introduction(caller: NodeId, called: NodeId) -> [u8; INTRODUCTION_LEN] {
    let numbers = [caller, called].map(|node| node.number().to_le_bytes());
    *numbers.as_flattened().first_chunk().expect("two numbers of two bytes")
}

/// Who calls, and whom.
pub(super) fn decode_introduction(bytes: &[u8]) -> Result<(NodeId, NodeId)> {
    let mut rest = Rest(bytes);
    let (caller, called) = (NodeId::new(rest.u16()?), NodeId::new(rest.u16()?));
    rest.end()?;
    Ok((caller, called))
}

pub(super) fn encode_letter(job: &Job, path: &Path) -> Vec<u8> {
    [job.as_bytes(), path.as_os_str().as_bytes()].concat()
}

/// The job and the socket that a letter names; `None` of an empty one.
pub(super) fn decode_letter(bytes: &[u8]) -> Option<(Job, PathBuf)> {
    let (job, path) = bytes.split_first_chunk()?;
    Some((Job::from_bytes(*job), OsString::from_vec(path.to_vec()).into()))
}

/// Reads `bytes` as everything that somebody may say to a node: to be given nonsense by tests.
#[doc(hidden)]
pub fn decode_any(bytes: &[u8]) {
    _ = Preamble::decode(bytes);
    _ = reason::receive(&mut &bytes[..]);
    _ = Hello::decode(bytes);
    _ = Card::decode(bytes);
    _ = decode_said(bytes);
    _ = decode_table(bytes, 3);
    _ = decode_introduction(bytes);
    _ = decode_letter(bytes);
}

/// What somebody may say, to be changed at random.
#[doc(hidden)]
pub fn samples() -> Vec<Vec<u8>> {
    let card = Card {
        host: "boot 1 net:[2]".to_owned(),
        label: "café".to_owned(),
        addresses: ["10.0.0.1:4000", "[fd00::1]:4001"].map(|at| at.parse().expect("fine")).into(),
    };
    let hello = Hello {
        node: NodeId::new(3),
        nodes: 4,
        page_size: 4096,
        build: Build::new("pangea 1", [("shared::Sample", 7)]),
        card: card.encode(),
    };
    let mut samples = vec![
        card.encode(),
        hello.encode(),
        encode_said(Ok(b"bytes")),
        encode_said(Err("a reason")),
        encode_table(Ok(&[vec![], vec![1, 2, 3], vec![0; 99]])),
        encode_table(Err("no")),
        encode_introduction(NodeId::new(2), NodeId::new(1)).to_vec(),
        encode_letter(&Job::named("job"), Path::new("/tmp/socket")),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    ];
    samples.extend((0..4).map(|len| vec![0xFF; 10 * len]));
    samples
}

#[cfg(all(test, not(loom)))]
mod tests;
