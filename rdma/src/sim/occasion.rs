//! Why a node is woken, as the tag of the network's event.

use crate::{NodeId, link::SlotId};

const SENT: u64 = 1;
const TIMER: u64 = 2;
const BEAT: u64 = 3;
const END: u64 = 4;

/// What a node of a membership is woken for. One of an older membership is none of its business.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Occasion {
    /// The network no longer reads a slot of the link to `peer`.
    Sent { membership: u16, peer: NodeId, slot: SlotId },
    /// The link to `peer` has to be looked at.
    Timer { membership: u16, peer: NodeId },
    /// A sign of life is due.
    Beat { membership: u16 },
    /// The node has lingered long enough.
    End { membership: u16 },
}

impl Occasion {
    /// kind (16 bits), membership (16), peer (16), slot (16)
    pub(super) fn tag(self) -> u64 {
        let (kind, membership, peer, slot) = match self {
            Self::Sent { membership, peer, slot } => (SENT, membership, peer.number(), slot.0),
            Self::Timer { membership, peer } => (TIMER, membership, peer.number(), 0),
            Self::Beat { membership } => (BEAT, membership, 0, 0),
            Self::End { membership } => (END, membership, 0, 0),
        };
        kind << 48 | u64::from(membership) << 32 | u64::from(peer) << 16 | u64::from(slot)
    }

    pub(super) fn from_tag(tag: u64) -> Option<Self> {
        let [slot, peer, membership, kind] =
            [0, 16, 32, 48].map(|shift| u16::try_from(tag >> shift & 0xFFFF).expect("16 bits"));
        let peer = NodeId::new(peer);
        match u64::from(kind) {
            SENT => Some(Self::Sent { membership, peer, slot: SlotId(slot) }),
            TIMER => Some(Self::Timer { membership, peer }),
            BEAT => Some(Self::Beat { membership }),
            END => Some(Self::End { membership }),
            _ => None,
        }
    }

    pub(super) fn membership(self) -> u16 {
        match self {
            Self::Sent { membership, .. }
            | Self::Timer { membership, .. }
            | Self::Beat { membership }
            | Self::End { membership } => membership,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occasions_are_what_their_tags_say() {
        let (membership, peer) = (0xFFFF, NodeId::new(0x8001));
        for occasion in [
            Occasion::Sent { membership, peer, slot: SlotId(0x1234) },
            Occasion::Timer { membership, peer },
            Occasion::Beat { membership },
            Occasion::End { membership },
        ] {
            assert_eq!(Occasion::from_tag(occasion.tag()), Some(occasion));
        }
        assert_eq!(Occasion::from_tag(0), None);
    }
}
