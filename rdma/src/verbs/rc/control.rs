//! What the two ends of a connection say to each other beside the user's messages.
//!
//! The immediate data of every message says what it is, and how many receives are posted again.

use super::credit::Class;
use crate::{
    Error, Region, Result,
    verbs::{registry::NoSlab, slabs::Slab},
};

/// What a message is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Message,
    Credit,
    Ask,
    Answer,
}

impl Kind {
    pub(super) const fn class(self) -> Class {
        match self {
            Self::Message => Class::Message,
            Self::Credit => Class::Credit,
            Self::Ask | Self::Answer => Class::Control,
        }
    }

    /// The immediate data of such a message that tells of `returned` receives.
    pub(super) const fn immediate(self, returned: u32) -> u32 {
        assert!(returned < 1 << 16, "a window is small");
        (self as u32) << 16 | returned
    }

    /// What immediate data says.
    pub(super) fn of(immediate: u32) -> Result<(Self, u32)> {
        let kind = match immediate >> 16 {
            0 => Self::Message,
            1 => Self::Credit,
            2 => Self::Ask,
            3 => Self::Answer,
            other => return Err(Error::protocol(format!("a message of the unknown kind {other}"))),
        };
        Ok((kind, immediate & 0xffff))
    }
}

/// Bytes of an ask: region (4), zero (4), offset (8); little-endian, as all of these.
pub(super) const ASK_LEN: usize = 16;

/// "Which slab holds this byte?"
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Ask {
    pub(super) region: Region,
    pub(super) offset: u64,
}

impl Ask {
    pub(super) fn to_bytes(self) -> [u8; ASK_LEN] {
        words([u64::from(self.region.0), self.offset])
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let [region, offset] = from_words(bytes, "an ask")?;
        Ok(Self { region: Region(narrow(region)?), offset })
    }
}

/// Bytes of an answer: region (4), zero (4), outcome (8), bytes in the region (8), and of the slab
/// its start (8), length (8), address (8), key (4), zero (4).
pub(super) const ANSWER_LEN: usize = 56;

/// The slab that was asked for, or why there is none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Answer {
    pub(super) region: Region,
    pub(super) slab: Result<(u64, Slab), NoSlab>,
}

impl Answer {
    pub(super) fn to_bytes(self) -> [u8; ANSWER_LEN] {
        let region = u64::from(self.region.0);
        words(match self.slab {
            Ok((capacity, slab)) => {
                [region, 0, capacity, slab.start, slab.len, slab.address, u64::from(slab.key)]
            }
            Err(NoSlab::UnknownRegion) => [region, 1, 0, 0, 0, 0, 0],
            Err(NoSlab::OutOfBounds { capacity }) => [region, 2, capacity, 0, 0, 0, 0],
            Err(NoSlab::Refused) => [region, 3, 0, 0, 0, 0, 0],
        })
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let [region, outcome, capacity, start, len, address, key] = from_words(bytes, "an answer")?;
        let slab = match outcome {
            0 => Ok((capacity, Slab { start, len, address, key: narrow(key)? })),
            1 => Err(NoSlab::UnknownRegion),
            2 => Err(NoSlab::OutOfBounds { capacity }),
            3 => Err(NoSlab::Refused),
            other => return Err(Error::protocol(format!("an answer of the outcome {other}"))),
        };
        let fits = start.checked_add(len).is_some_and(|end| end <= capacity);
        if slab.is_ok() && (!fits || address.checked_add(len).is_none()) {
            return Err(Error::protocol(format!("an impossible slab: {slab:?}")));
        }
        Ok(Self { region: Region(narrow(region)?), slab })
    }
}

fn words<const WORDS: usize, const LEN: usize>(words: [u64; WORDS]) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    for (part, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *part = word.to_le_bytes();
    }
    bytes
}

fn from_words<const WORDS: usize>(bytes: &[u8], what: &str) -> Result<[u64; WORDS]> {
    let (chunks, rest) = bytes.as_chunks::<8>();
    let whole = <[[u8; 8]; WORDS]>::try_from(chunks).ok().filter(|_| rest.is_empty());
    let len = bytes.len();
    let chunks = whole.ok_or_else(|| Error::protocol(format!("{what} of {len} bytes")))?;
    Ok(chunks.map(u64::from_le_bytes))
}

fn narrow(word: u64) -> Result<u32> {
    u32::try_from(word).map_err(|_| Error::protocol(format!("{word:#x} where 32 bits belong")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLAB: Slab = Slab { start: 64, len: 128, address: 1 << 40, key: 0xdead_beef };

    #[test]
    fn everything_said_is_understood() {
        let ask = Ask { region: Region(7), offset: 1 << 40 };
        assert_eq!(Ask::from_bytes(&ask.to_bytes()).unwrap(), ask);
        let outcomes = [
            Ok((192, SLAB)),
            Err(NoSlab::UnknownRegion),
            Err(NoSlab::OutOfBounds { capacity: 5 }),
            Err(NoSlab::Refused),
        ];
        for slab in outcomes {
            let answer = Answer { region: Region(u32::MAX), slab };
            assert_eq!(Answer::from_bytes(&answer.to_bytes()).unwrap(), answer);
        }
        for kind in [Kind::Message, Kind::Credit, Kind::Ask, Kind::Answer] {
            assert_eq!(Kind::of(kind.immediate(63)).unwrap(), (kind, 63));
        }
    }

    #[test]
    fn nonsense_is_a_breach_of_the_protocol() {
        let answer = Answer { region: Region(1), slab: Ok((192, SLAB)) }.to_bytes();
        Answer::from_bytes(&answer).unwrap();
        for (at, byte) in [(4, 1), (8, 4), (16, 191), (39, 0xff), (52, 1)] {
            let mut bytes = answer;
            bytes[at] = byte;
            assert!(Answer::from_bytes(&bytes).is_err(), "byte {at} as {byte}");
        }
        assert!(Answer::from_bytes(&answer[1..]).is_err());
        assert!(Ask::from_bytes(&[0; ASK_LEN + 1]).is_err());
        assert!(Kind::of(4 << 16).is_err());
    }
}
