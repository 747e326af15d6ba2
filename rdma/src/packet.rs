//! What the agents of two nodes say to each other: packets of a head and a payload.
//!
//! ```text
//! head   kind (1) flags (1) zero (2) len (4) request (8) key (8) offset (8)     little-endian
//!        then `len` bytes of payload
//! ```
//!
//! | kind | request | key | offset | payload |
//! |---|---|---|---|---|
//! | message | | | | the message; its sender has credit for it |
//! | credit | | | for how many messages more | |
//! | read | its number | of the region | where from | how many bytes (8) |
//! | bytes | of the read | | place in what was read | some of it, in order |
//! | write | its number | of the region | where to | some of it, in order; the last is flagged |
//! | fetch-add, swap | its number | of the region | of the word | operand (8) |
//! | compare-swap | its number | of the region | of the word | expected (8), desired (8) |
//! | done | of what is done | | the word before | |
//! | refused | of what is not done | | | why (4 times 8) |
//! | signal | | of the region | of the word | the value (8) |
//! | region | | of the region | its number | its length (8) |
//! | lost | | | node, epoch's cause | |
//! | goodbye | | | one more than the node that died, if one did | |
//! | beat | | | | |
//!
//! Never an address: a place is a region's key, which is random, and an offset in it.

use crate::{Error, MESSAGE_LEN_MAX, Result};

/// Bytes of a head.
pub(crate) const HEAD_LEN: usize = 32;
/// Bytes that the payload of one packet has at most; a link may carry less at a time.
pub(crate) const PAYLOAD_MAX: usize = 256 << 10;
/// Bytes of the longest payload that is handed over whole.
pub(crate) const SHORT_MAX: usize = MESSAGE_LEN_MAX;

/// Bit of the flags: the last packet of its request.
const LAST: u8 = 1;

/// What a packet says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Kind {
    Message = 1,
    Read = 2,
    Bytes = 3,
    Write = 4,
    FetchAdd = 5,
    Swap = 6,
    CompareSwap = 7,
    Done = 8,
    Refused = 9,
    Signal = 10,
    Region = 11,
    Lost = 12,
    Goodbye = 13,
    Beat = 14,
    Credit = 15,
}

impl Kind {
    const ALL: [Self; 15] = [
        Self::Message,
        Self::Read,
        Self::Bytes,
        Self::Write,
        Self::FetchAdd,
        Self::Swap,
        Self::CompareSwap,
        Self::Done,
        Self::Refused,
        Self::Signal,
        Self::Region,
        Self::Lost,
        Self::Goodbye,
        Self::Beat,
        Self::Credit,
    ];

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// The lengths that a payload of this kind may have: from the first to the second.
    fn lengths(self) -> (usize, usize) {
        match self {
            Self::Message => (0, MESSAGE_LEN_MAX),
            Self::Bytes | Self::Write => (0, PAYLOAD_MAX),
            Self::Read | Self::FetchAdd | Self::Swap | Self::Signal | Self::Region => (8, 8),
            Self::CompareSwap => (16, 16),
            Self::Refused => (32, 32),
            Self::Done | Self::Lost | Self::Goodbye | Self::Beat | Self::Credit => (0, 0),
        }
    }
}

/// The head of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) is_last: bool,
    pub(crate) len: u32,
    pub(crate) request: u64,
    pub(crate) key: u64,
    pub(crate) offset: u64,
}

impl Head {
    /// A head of `kind` that says nothing more.
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, is_last: true, len: 0, request: 0, key: 0, offset: 0 }
    }

    pub(crate) fn encode(&self) -> [u8; HEAD_LEN] {
        let mut bytes = [0; HEAD_LEN];
        bytes[0] = self.kind as u8;
        bytes[1] = if self.is_last { LAST } else { 0 };
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.request.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.key.to_le_bytes());
        bytes[24..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    /// Reads a head that a peer has sent.
    pub(crate) fn decode(bytes: &[u8; HEAD_LEN]) -> Result<Self> {
        let Some(kind) = Kind::from_number(bytes[0]) else {
            return Err(Error::protocol(format!("a packet of kind {}", bytes[0])));
        };
        if bytes[1] & !LAST != 0 || bytes[2..4] != [0; 2] {
            return Err(Error::protocol(format!("flags {:?} of a {kind:?} packet", &bytes[1..4])));
        }
        let head = Self {
            kind,
            is_last: bytes[1] == LAST,
            len: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            request: word(bytes, 1),
            key: word(bytes, 2),
            offset: word(bytes, 3),
        };
        let (least, most) = kind.lengths();
        if !(least..=most).contains(&head.payload_len()) {
            let len = head.len;
            let reason = format!("a {kind:?} packet with {len} bytes, where {least} to {most} may");
            return Err(Error::protocol(reason));
        }
        Ok(head)
    }

    pub(crate) fn payload_len(&self) -> usize {
        self.len as usize
    }
}

/// The `index`th 64-bit word of `bytes`, which has one there.
pub(crate) fn word(bytes: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(bytes[8 * index..][..8].try_into().expect("eight bytes"))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn head(kind: Kind, len: usize) -> Head {
        let len = u32::try_from(len).unwrap();
        Head { kind, is_last: true, len, request: 7, key: u64::MAX - 1, offset: 1 << 40 }
    }

    #[test]
    fn heads_survive_the_wire() {
        for kind in Kind::ALL {
            let (least, most) = kind.lengths();
            for len in [least, most] {
                let head = head(kind, len);
                assert_eq!(Head::decode(&head.encode()).unwrap(), head);
            }
        }
    }

    #[test]
    fn lengths_that_no_packet_has_are_refused() {
        for kind in Kind::ALL {
            let (least, most) = kind.lengths();
            for len in [most + 1, u32::MAX as usize, least.wrapping_sub(1) & 0xFFFF_FFFF] {
                let head = Head { len: u32::try_from(len).unwrap(), ..head(kind, 0) };
                Head::decode(&head.encode()).unwrap_err();
            }
        }
    }

    #[test]
    fn kinds_and_flags_that_there_are_not_are_refused() {
        let good = head(Kind::Beat, 0).encode();
        for kind in [0, 16, 0xFF] {
            let mut bytes = good;
            bytes[0] = kind;
            Head::decode(&bytes).unwrap_err();
        }
        for at in 1..4 {
            let mut bytes = good;
            bytes[at] = 0x40;
            Head::decode(&bytes).unwrap_err();
        }
    }
}
