//! One frame: a head and a payload, under one checksum.
//!
//! ```text
//!  0 checksum      u32  CRC32C of all that follows
//!  4 kind          u8   requests, replies, report
//!  5 version       u8
//!  6 len           u16  bytes of payload
//!  8 cluster       u64
//! 16 epoch         u64
//! 24 source        u16
//! 26 target        u16
//! 28 credit        u16  requests from `next` on that the sender of this frame takes
//! 30 credit        u16  replies, likewise
//! 32 sequence      u64  of the frame, in its class
//! 40 transmission  u64  grows with every frame sent
//! 48 seen          u64  newest transmission received
//! 56 next          u64  first request not delivered
//! 64 next          u64  first reply not delivered
//! 72 payload
//! ```
//!
//! Numbers are little-endian. The payload of requests and replies is packets, each behind its
//! length (u16). That of a report is two bit maps of what was received at and after `next`: the
//! length of the requests' in bytes (u16), the requests', the replies'.

use super::Class;
use crate::NodeId;

/// Bytes of the longest frame.
pub const FRAME_LEN_MAX: usize = 4096;
/// Bytes of a frame's head.
pub const HEAD_LEN: usize = 72;
/// Bytes of the longest payload.
pub const PAYLOAD_LEN_MAX: usize = FRAME_LEN_MAX - HEAD_LEN;
/// Bytes before a packet that say its length.
pub(super) const PREFIX_LEN: usize = size_of::<u16>();
/// Bytes of the longest packet.
pub const PACKET_LEN_MAX: usize = PAYLOAD_LEN_MAX - PREFIX_LEN;
/// Frames of a class that may be under way: a report has room for what is known of each.
pub const WINDOW_MAX: u16 = 8192;

const VERSION: u8 = 1;

const _: () = assert!(FRAME_LEN_MAX <= u16::MAX as usize, "lengths fit 16 bits");
const _: () = assert!(HEAD_LEN.is_multiple_of(8), "payloads are aligned to words");
const _: () = assert!(
    PREFIX_LEN + Class::COUNT * (WINDOW_MAX as usize).div_ceil(8) <= PAYLOAD_LEN_MAX,
    "a report fits a frame"
);

/// Who speaks to whom, in which cluster and membership.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Identity {
    /// The number that names the job.
    pub cluster: u64,
    /// The membership in which the link was made.
    pub epoch: u64,
    /// Who sends.
    pub source: NodeId,
    /// Who receives.
    pub target: NodeId,
}

impl Identity {
    /// The same, as the peer says it.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { source: self.target, target: self.source, ..self }
    }
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Packets of a class.
    Packets(Class),
    /// What has been received out of order.
    Report,
}

/// What the sender of a frame has received.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Acknowledgement {
    /// The newest transmission; 0 before the first.
    pub seen: u64,
    /// By class: the first frame that has not been delivered.
    pub next: [u64; Class::COUNT],
    /// By class: frames from `next` on that are taken.
    pub credit: [u16; Class::COUNT],
}

/// What stands before the payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Head {
    /// Who speaks to whom.
    pub identity: Identity,
    /// What the payload is.
    pub kind: Kind,
    /// The place of the frame in its class; 0 in a report.
    pub sequence: u64,
    /// Grows with every frame that is sent, a repetition too.
    pub transmission: u64,
    /// What the sender has received.
    pub acknowledgement: Acknowledgement,
}

/// A frame that was received whole.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frame<'a> {
    /// What stands before the payload.
    pub head: Head,
    /// Packets or bit maps, according to the head.
    pub payload: &'a [u8],
}

/// Why a frame was not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// It is shorter than a head, longer than a frame, or not as long as it says.
    Length,
    /// Its bytes are not those that were sent.
    Checksum,
    /// Another build of this program has sent it.
    Version,
    /// It carries nothing that is known.
    Kind,
    /// Its payload is not what its kind has.
    Payload,
    /// It is of another cluster, an old epoch, or for another node.
    Stranger,
    /// It acknowledges what was never sent, or is beyond what may be sent.
    Impossible,
}

impl Refusal {
    /// How many there are.
    pub const COUNT: usize = Self::Impossible as usize + 1;
}

/// Reads a frame; whatever the bytes are, it does no more than refuse them.
pub fn decode(bytes: &[u8]) -> Result<Frame<'_>, Refusal> {
    let (head, payload) = bytes.split_first_chunk::<HEAD_LEN>().ok_or(Refusal::Length)?;
    if payload.len() > PAYLOAD_LEN_MAX {
        return Err(Refusal::Length);
    }
    if number::<4>(head, 0) != u64::from(checksum(bytes)) {
        return Err(Refusal::Checksum);
    }
    if head[5] != VERSION {
        return Err(Refusal::Version);
    }
    if number::<2>(head, 6) != payload.len() as u64 {
        return Err(Refusal::Length);
    }
    let kind = match head[4] {
        0 => Kind::Packets(Class::Request),
        1 => Kind::Packets(Class::Reply),
        2 => Kind::Report,
        _ => return Err(Refusal::Kind),
    };
    let is_sound = match kind {
        Kind::Packets(_) => are_packets(payload),
        Kind::Report => bit_maps(payload).is_some(),
    };
    if !is_sound {
        return Err(Refusal::Payload);
    }
    Ok(Frame { head: read(head, kind), payload })
}

fn read(head: &[u8; HEAD_LEN], kind: Kind) -> Head {
    let short = |at| u16::from_le_bytes([head[at], head[at + 1]]);
    Head {
        identity: Identity {
            cluster: number::<8>(head, 8),
            epoch: number::<8>(head, 16),
            source: NodeId::new(short(24)),
            target: NodeId::new(short(26)),
        },
        kind,
        sequence: number::<8>(head, 32),
        transmission: number::<8>(head, 40),
        acknowledgement: Acknowledgement {
            seen: number::<8>(head, 48),
            next: [number::<8>(head, 56), number::<8>(head, 64)],
            credit: [short(28), short(30)],
        },
    }
}

/// The little-endian number of `LEN` bytes at `at`.
#[inline]
fn number<const LEN: usize>(head: &[u8; HEAD_LEN], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..LEN].copy_from_slice(&head[at..at + LEN]);
    u64::from_le_bytes(bytes)
}

/// Writes `head` before a payload of `len` bytes that is in its place, and seals both; the length
/// of the frame.
pub fn seal(bytes: &mut [u8; FRAME_LEN_MAX], head: &Head, len: usize) -> usize {
    assert!(len <= PAYLOAD_LEN_MAX, "a payload fits its frame");
    bytes[4] = match head.kind {
        Kind::Packets(class) => u8::from(class == Class::Reply),
        Kind::Report => 2,
    };
    bytes[5] = VERSION;
    let len16 = u16::try_from(len).expect("a payload is short");
    let Identity { cluster, epoch, source, target } = head.identity;
    let Acknowledgement { seen, next, credit } = head.acknowledgement;
    let shorts = [source.number(), target.number(), credit[0], credit[1]];
    let longs = [head.sequence, head.transmission, seen, next[0], next[1]];
    bytes[6..8].copy_from_slice(&len16.to_le_bytes());
    bytes[8..16].copy_from_slice(&cluster.to_le_bytes());
    bytes[16..24].copy_from_slice(&epoch.to_le_bytes());
    bytes[24..32].copy_from_slice(shorts.map(u16::to_le_bytes).as_flattened());
    bytes[32..HEAD_LEN].copy_from_slice(longs.map(u64::to_le_bytes).as_flattened());
    reseal(&mut bytes[..HEAD_LEN + len]);
    HEAD_LEN + len
}

/// Makes the checksum of a frame right again, after its bytes were changed.
pub(crate) fn reseal(frame: &mut [u8]) {
    let sum = checksum(frame);
    frame[..4].copy_from_slice(&sum.to_le_bytes());
}

fn checksum(frame: &[u8]) -> u32 {
    crc32c::crc32c(&frame[4..])
}

/// The packets of a payload.
pub(super) fn packets(payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        let (packet, left) = split_packet(rest)?;
        rest = left;
        Some(packet)
    })
}

fn split_packet(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (prefix, rest) = bytes.split_first_chunk::<PREFIX_LEN>()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*prefix)))
}

fn are_packets(mut payload: &[u8]) -> bool {
    while !payload.is_empty() {
        let Some((_, rest)) = split_packet(payload) else { return false };
        payload = rest;
    }
    true
}

/// The bit maps of a report, by class.
pub(super) fn bit_maps(payload: &[u8]) -> Option<[&[u8]; Class::COUNT]> {
    let (requests, replies) = split_packet(payload)?;
    Some([requests, replies])
}

#[cfg(test)]
mod tests;
