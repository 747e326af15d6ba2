//! What reads bytes that others have sent, for a program that makes up such bytes.
//!
//! A target panics where bytes do what they must not; it returns where they are taken or refused.

use std::{
    fmt, io,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    Completion, Mapping, Moment, NodeId, Region,
    agent::{Agent, Correspondence},
    bootstrap::hosts,
    cable,
    link::{Class, FRAME_LEN_MAX, Identity, Link, Settings, frame},
    packet::{HEAD_LEN, Head, Kind, word},
    roster::Roster,
    stream::{Assembler, Outlet, Source},
};

/// Something that reads bytes.
pub struct Target {
    /// What it is called.
    pub name: &'static str,
    /// Inputs that it takes, from which others are made.
    pub corpus: fn() -> Vec<Vec<u8>>,
    /// Reads an input.
    pub run: fn(&[u8]),
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Target").field(&self.name).finish()
    }
}

/// All of them.
pub const TARGETS: [Target; 5] = [
    Target { name: "frame", corpus: frames, run: decode_frame },
    Target { name: "link", corpus: conversations, run: hear },
    Target { name: "handshake", corpus: hosts::samples, run: hosts::decode_any },
    Target { name: "packets", corpus: packets, run: assemble },
    Target { name: "offer", corpus: cable::offers, run: cable::decode_offer },
];

/// Decodes a frame as it is, and with the checksum that it should have.
fn decode_frame(bytes: &[u8]) {
    _ = frame::decode(bytes);
    let mut bytes = bytes.to_vec();
    if bytes.len() < frame::HEAD_LEN {
        return;
    }
    frame::reseal(&mut bytes);
    let Ok(decoded) = frame::decode(&bytes) else { return };
    let mut again = [0; FRAME_LEN_MAX];
    again[frame::HEAD_LEN..bytes.len()].copy_from_slice(decoded.payload);
    let len = frame::seal(&mut again, &decoded.head, decoded.payload.len());
    assert!(again[..len] == bytes, "a frame is written in one way");
}

/// Has a link hear frames, each behind its length and with the checksum that it should have.
fn hear(bytes: &[u8]) {
    let mut end = End::new(NodeId::new(1));
    let mut rest = bytes;
    let mut now = Moment::START;
    while let Some((prefix, left)) = rest.split_first_chunk::<2>() {
        let len = usize::from(u16::from_le_bytes(*prefix)).min(left.len());
        let mut frame = left[..len].to_vec();
        rest = &left[len..];
        if len >= frame::HEAD_LEN {
            frame::reseal(&mut frame);
        }
        end.hear(now, &frame);
        end.speak(now);
        now = end.link.deadline().unwrap_or(now);
    }
}

/// What stands for the key of a region in a corpus.
const KEY: u64 = 0x4B4B_4B4B_4B4B_4B4B;

/// Has an agent hear a stream of packets, in pieces. A peer that breaks the protocol is heard no
/// further.
fn assemble(bytes: &[u8]) {
    let (agent, key) = agent();
    let mut bytes = bytes.to_vec();
    // Named as the agent has named it.
    for at in 0..bytes.len().saturating_sub(7) {
        if bytes[at..at + 8] == KEY.to_le_bytes() {
            bytes[at..at + 8].copy_from_slice(&key.to_le_bytes());
        }
    }
    let mut assembler = Assembler::new();
    let mut sink = |_: Completion<'_>| {};
    let mut inbox = Correspondence::new(&agent, NodeId::new(1), 0, &mut sink);
    for piece in bytes.chunks(37) {
        if assembler.feed(piece, &mut inbox).is_err() {
            return;
        }
    }
}

/// An agent with a region and a peer that hears nothing, and the region's key.
fn agent() -> (Agent, u64) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let roster = Arc::new(Roster::new(NodeId::new(0), 2, None));
    let outlets: Vec<Vec<Box<dyn Outlet>>> = vec![vec![], vec![Box::new(Tap(told.clone()))]];
    let agent = Agent::new(roster, outlets, vec![None, None]);
    let memory = Arc::new(Mapping::new(1 << 16).expect("a little memory"));
    agent.register(Region(1), memory).expect("a region");
    let told = told.lock().unwrap_or_else(PoisonError::into_inner);
    (agent, word(&told, 2))
}

/// Keeps what goes in, as far as it is short.
#[derive(Debug)]
struct Tap(Arc<Mutex<Vec<u8>>>);

impl Outlet for Tap {
    fn push(
        &mut self,
        head: &[u8; HEAD_LEN],
        payload: Source,
        _already: usize,
    ) -> io::Result<usize> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.extend_from_slice(head);
        told.truncate(1 << 16);
        Ok(HEAD_LEN + payload.len())
    }

    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn close(&mut self) {}
}

fn packets() -> Vec<Vec<u8>> {
    let kinds = [
        (Kind::Message, 5),
        (Kind::Read, 8),
        (Kind::Bytes, 16),
        (Kind::Write, 100),
        (Kind::FetchAdd, 8),
        (Kind::Swap, 8),
        (Kind::CompareSwap, 16),
        (Kind::Done, 0),
        (Kind::Refused, 32),
        (Kind::Signal, 8),
        (Kind::Region, 8),
        (Kind::Lost, 0),
        (Kind::Goodbye, 0),
        (Kind::Beat, 0),
        (Kind::Credit, 0),
    ];
    let packet = |(kind, len): (Kind, u32)| {
        let head = Head { len, key: KEY, offset: 64, ..Head::new(kind) };
        [&head.encode()[..], &vec![1; len as usize]].concat()
    };
    (0..kinds.len())
        .map(|first| kinds[first..].iter().copied().flat_map(packet).collect())
        .collect()
}

fn frames() -> Vec<Vec<u8>> {
    let (mut one, mut other) = (End::new(NodeId::new(0)), End::new(NodeId::new(1)));
    let mut frames = Vec::new();
    let mut now = Moment::START;
    for _ in 0..8 {
        for (number, frame) in one.speak(now).into_iter().enumerate() {
            // The second is lost: there are reports, too.
            if number != 1 {
                other.hear(now, &frame);
            }
            frames.push(frame);
        }
        std::mem::swap(&mut one, &mut other);
        now = one.link.deadline().unwrap_or(now).max(now);
    }
    frames
}

fn conversations() -> Vec<Vec<u8>> {
    let prefixed = frames().into_iter().map(|frame| {
        let len = u16::try_from(frame.len()).expect("a frame is short");
        [&len.to_le_bytes()[..], &frame].concat()
    });
    let prefixed: Vec<Vec<u8>> = prefixed.collect();
    (0..prefixed.len()).map(|first| prefixed[first..].concat()).collect()
}

/// An end of a link that always has something to say.
struct End {
    link: Link,
    slab: Vec<[u8; FRAME_LEN_MAX]>,
}

impl End {
    fn new(source: NodeId) -> Self {
        let target = NodeId::new(1 - source.number());
        let identity = Identity { cluster: 1, epoch: 1, source, target };
        let settings = Settings { requests: 4, replies: 4, ..Settings::new(identity) };
        let slab = vec![[0; FRAME_LEN_MAX]; settings.slots()];
        Self { link: Link::new(settings).expect("the settings are sound"), slab }
    }

    /// The frames that are to be sent now.
    fn speak(&mut self, now: Moment) -> Vec<Vec<u8>> {
        for class in [Class::Request, Class::Reply] {
            for packet in [&[7; 3000][..], b"", b"short"] {
                self.link.push(class, &mut self.slab, &[packet]);
            }
        }
        let mut frames = Vec::new();
        while let Some(outgoing) = self.link.transmit(now, &mut self.slab) {
            frames.push(self.slab[outgoing.slot.index()][..outgoing.len].to_vec());
            self.link.sent(outgoing.slot);
        }
        assert!(self.link.deadline().is_none_or(|deadline| deadline > now), "all was said");
        frames
    }

    /// Hears a frame, and takes packets but for empty requests.
    fn hear(&mut self, now: Moment, frame: &[u8]) {
        let mut deliver = |class, packet: &[u8]| class == Class::Reply || !packet.is_empty();
        self.link.receive(now, frame, &mut deliver);
        self.link.resume(Class::Request, &mut |_, _| true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_take_what_they_are_made_for() {
        for target in TARGETS {
            let corpus = (target.corpus)();
            assert!(corpus.len() > 10, "{target:?}");
            corpus.iter().for_each(|input| (target.run)(input));
        }
        assert!(frames().iter().all(|bytes| frame::decode(bytes).is_ok()));
        let reports = |bytes: &Vec<u8>| {
            frame::decode(bytes).is_ok_and(|frame| frame.head.kind == frame::Kind::Report)
        };
        assert!(frames().iter().any(reports));
    }
}
