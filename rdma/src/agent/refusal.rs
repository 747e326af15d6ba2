//! Why a node does not do what a peer asks of it, as it travels.

use crate::{Error, NodeId, packet::word};

/// Words of a refusal: what it is, and up to three numbers.
pub(super) type Words = [u64; 4];

const UNKNOWN_REGION: u64 = 1;
const OUT_OF_BOUNDS: u64 = 2;
const UNALIGNED: u64 = 3;

/// The words for `error`, which is the sender's fault.
pub(super) fn encode(error: &Error) -> Words {
    match *error {
        Error::OutOfBounds { offset, len, capacity } => [OUT_OF_BOUNDS, offset, len, capacity],
        Error::Unaligned { offset, align } => [UNALIGNED, offset, align, 0],
        _ => [UNKNOWN_REGION, 0, 0, 0],
    }
}

/// What `peer` means by `payload`, which has four words.
pub(super) fn decode(peer: NodeId, payload: &[u8]) -> Error {
    let [first, second, third] = [1, 2, 3].map(|index| word(payload, index));
    match word(payload, 0) {
        OUT_OF_BOUNDS => Error::OutOfBounds { offset: first, len: second, capacity: third },
        UNALIGNED => Error::Unaligned { offset: first, align: second },
        UNKNOWN_REGION => Error::UnknownRegion { node: peer, region: u32::MAX },
        other => Error::protocol(format!("{peer} refused for reason {other}")),
    }
}
