//! Control messages, encoded by bincode, which nothing else uses.
//!
//! They are few and small: joining, allocation on another node, names. Data never takes this way.

use std::sync::Arc;

use bincode::{Decode, Encode, config};
use pangea_rdma::MESSAGE_LEN_MAX;

use crate::{Error, Result};

/// The version of these messages, which all nodes of a cluster share.
pub(crate) const VERSION: u16 = 2;

/// What nodes tell each other.
#[derive(Clone, Debug, Decode, Encode, PartialEq)]
pub(crate) enum Message {
    /// Joining: what the sender brings.
    Hello { version: u16, heap_bytes: u64 },
    /// Joining, from node 0: can the windows lie here?
    Propose { base: u64, stride: u64 },
    /// Joining, to node 0: whether they can.
    Answer { is_free: bool },
    /// Joining, from node 0: they lie where last proposed, or that was taken back.
    Settle { is_settled: bool },
    /// Allocate in the receiver's heap.
    Allocate { ticket: u64, size: u64, align: u64 },
    /// Free in the receiver's heap.
    Free { offset: u64 },
    /// Publish under a name that the receiver keeps.
    Publish { ticket: u64, name: String, handle: HandleWire },
    /// Look up a name that the receiver keeps, now or once it is published.
    Lookup { ticket: u64, name: String },
    /// The answer to the request that has the ticket.
    Reply { ticket: u64, reply: Reply },
}

/// Answers to requests.
#[derive(Clone, Debug, Decode, Encode, PartialEq)]
pub(crate) enum Reply {
    /// The offset of the memory.
    Allocated(u64),
    /// There is no room.
    OutOfMemory { largest_free: u64, capacity: u64 },
    /// The request breaks a rule.
    Refused(String),
    /// The name is kept.
    Published,
    /// The name was published before.
    NameTaken,
    /// What was published.
    Found(HandleWire),
}

/// A handle on its way to another node.
#[derive(Clone, Debug, Decode, Encode, PartialEq)]
pub(crate) struct HandleWire {
    /// Whether it may still change.
    pub(crate) is_frozen: bool,
    /// The name of the element's type.
    pub(crate) type_name: String,
    /// What the bytes of an element mean.
    pub(crate) layout: u64,
    /// Home, offset and elements of each part, in order.
    pub(crate) parts: Vec<(u16, u64, u64)>,
}

fn format() -> impl config::Config {
    // The limit bounds what a length field in a message can make the decoder allocate.
    config::standard().with_limit::<MESSAGE_LEN_MAX>()
}

/// The bytes of `message`.
///
/// # Errors
///
/// [`Error::TooLarge`] where they are more than a frame.
pub(crate) fn encode(message: &Message) -> Result<Arc<[u8]>> {
    let too_large = |len| Error::TooLarge { len, size: 1 };
    let bytes = bincode::encode_to_vec(message, format()).map_err(|_| too_large(usize::MAX))?;
    if bytes.len() > MESSAGE_LEN_MAX {
        return Err(too_large(bytes.len()));
    }
    Ok(bytes.into())
}

/// The message in `bytes`, all of them.
pub(crate) fn decode(bytes: &[u8]) -> Result<Message> {
    match bincode::decode_from_slice(bytes, format()) {
        Ok((message, len)) if len == bytes.len() => Ok(message),
        Ok((_, len)) => {
            let reason = format!("a control message of {len} bytes came in {}", bytes.len());
            Err(Error::Protocol { reason })
        }
        Err(error) => Err(Error::Protocol { reason: format!("a control message: {error}") }),
    }
}

#[cfg(test)]
mod tests {
    use pangea_rdma::bootstrap::local::NODES_MAX;

    use super::*;

    fn handle(parts: u16) -> HandleWire {
        let parts = (0..parts).map(|home| (home, 1 << 47, 1 << 40)).collect();
        HandleWire { is_frozen: true, type_name: "f32".to_owned(), layout: u64::MAX, parts }
    }

    #[test]
    fn messages_survive_the_wire() {
        for message in [
            Message::Hello { version: VERSION, heap_bytes: 1 << 40 },
            Message::Publish { ticket: 3, name: "weights".to_owned(), handle: handle(8) },
            Message::Reply { ticket: u64::MAX, reply: Reply::Found(handle(0)) },
            Message::Reply { ticket: 0, reply: Reply::Refused("no".to_owned()) },
        ] {
            assert_eq!(decode(&encode(&message).unwrap()).unwrap(), message);
        }
    }

    #[test]
    fn every_prefix_and_every_flipped_byte_is_an_error_or_a_message() {
        let name = "weights".to_owned();
        let bytes = encode(&Message::Publish { ticket: 3, name, handle: handle(3) }).unwrap();
        for len in 0..bytes.len() {
            decode(&bytes[..len]).unwrap_err();
        }
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xFF] {
                let mut bytes = bytes.to_vec();
                bytes[at] ^= flip;
                // Either is fine; what matters is that it returns.
                _ = decode(&bytes);
            }
        }
        assert!(decode(&[&bytes[..], &[0]].concat()).is_err(), "a byte too many");
    }

    #[test]
    fn a_handle_with_a_part_on_every_node_of_the_largest_cluster_is_a_message() {
        let name = "n".repeat(255);
        let handle = handle(NODES_MAX);
        let message = Message::Publish { ticket: u64::MAX, name, handle };
        assert_eq!(decode(&encode(&message).unwrap()).unwrap(), message);
    }

    #[test]
    fn a_message_of_more_than_a_frame_is_refused() {
        let name = "n".repeat(MESSAGE_LEN_MAX);
        encode(&Message::Lookup { ticket: 0, name }).unwrap_err();
    }
}
