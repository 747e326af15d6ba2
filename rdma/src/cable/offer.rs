//! What a node offers to connect to a peer by.
//!
//! ```text
//! offer   number (8), kind (1: 0 any, 1 reliable, 2 unreliable), ports (1), for each:
//!         wire (1), addresses (1), length of its name (1), name (UTF-8); then why there are none
//! ```

use crate::{
    Error, Result,
    verbs::{Port, Wire},
};

/// Ports that are offered at most.
const PORTS_MAX: usize = 16;
/// Addresses of a port that are tried at most.
const PLACES_MAX: usize = 4;

/// A kind of connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// With reads and writes by the devices.
    Reliable,
    /// Frames that may be lost.
    Unreliable,
}

/// What a node offers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Offer {
    number: u64,
    kind: Option<Kind>,
    ports: Vec<Offered>,
    reason: String,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Offered {
    wire: u8,
    places: u8,
    name: String,
}

impl Offer {
    pub(super) fn new(ports: &[Port], kind: Option<Kind>, number: u64) -> Self {
        let offered = |port: &Port| Offered {
            wire: match port.wire() {
                Wire::InfiniBand => 1,
                Wire::Ethernet => 2,
                Wire::Thunderbolt => 3,
            },
            places: u8::try_from(port.gids().len().clamp(1, PLACES_MAX)).expect("few"),
            name: port.context().name().chars().take(64).collect(),
        };
        let ports = ports.iter().take(PORTS_MAX).map(offered).collect();
        Self { number, kind, ports, reason: String::new() }
    }

    /// Nothing, for `reason`.
    pub(super) fn none(reason: &str, number: u64) -> Self {
        let reason = reason.chars().take(500).collect();
        Self { number, kind: None, ports: Vec::new(), reason }
    }

    /// Why nothing is offered.
    pub(super) fn reason(&self) -> Option<&str> {
        self.ports.is_empty().then_some(&self.reason)
    }

    pub(super) fn name(&self, port: usize) -> &str {
        self.ports.get(port).map_or("", |port| &port.name)
    }

    /// A number that both ends come to, and nobody else.
    pub(super) fn with(&self, other: &Self) -> u64 {
        self.number ^ other.number
    }

    /// The pairs of ports to try, ours and theirs, and the place of their addresses: the same, in
    /// the same order, at both ends.
    pub(super) fn pairs(&self, theirs: &Self, is_lower: bool) -> Vec<(usize, usize, usize)> {
        let (lower, higher) = if is_lower { (self, theirs) } else { (theirs, self) };
        let mut pairs = Vec::new();
        for (one, first) in lower.ports.iter().enumerate() {
            for (two, second) in higher.ports.iter().enumerate() {
                let (here, there) = if is_lower { (one, two) } else { (two, one) };
                let places = usize::from(first.places.min(second.places));
                if first.wire == second.wire {
                    pairs.extend((0..places).map(|place| (here, there, place)));
                }
            }
        }
        pairs
    }

    /// The kind of connection that both ends make over our port `here`.
    pub(super) fn kind_with(&self, theirs: &Self, here: usize) -> Kind {
        let is_thunderbolt = self.ports.get(here).is_some_and(|port| port.wire == 3);
        let wants_unreliable = [self, theirs].iter().any(|end| end.kind == Some(Kind::Unreliable));
        if is_thunderbolt || wants_unreliable { Kind::Unreliable } else { Kind::Reliable }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.number.to_le_bytes().to_vec();
        bytes.push(match self.kind {
            None => 0,
            Some(Kind::Reliable) => 1,
            Some(Kind::Unreliable) => 2,
        });
        bytes.push(u8::try_from(self.ports.len()).expect("ports are few"));
        for port in &self.ports {
            let len = u8::try_from(port.name.len()).unwrap_or(u8::MAX);
            bytes.extend([port.wire, port.places, len]);
            bytes.extend(&port.name.as_bytes()[..usize::from(len)]);
        }
        bytes.extend(self.reason.as_bytes());
        bytes
    }

    /// Reads what a peer offers.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let wrong = || Error::protocol("an offer of ports that cannot be read");
        let (number, rest) = bytes.split_first_chunk().ok_or_else(wrong)?;
        let (&[kind, count], mut rest) = rest.split_first_chunk().ok_or_else(wrong)?;
        let kind = match kind {
            0 => None,
            1 => Some(Kind::Reliable),
            2 => Some(Kind::Unreliable),
            _ => return Err(wrong()),
        };
        let mut ports = Vec::new();
        for _ in 0..count {
            let (&[wire, places, len], after) = rest.split_first_chunk().ok_or_else(wrong)?;
            let (name, after) = after.split_at_checked(usize::from(len)).ok_or_else(wrong)?;
            if ports.len() == PORTS_MAX || usize::from(places) > PLACES_MAX {
                return Err(wrong());
            }
            let name = String::from_utf8_lossy(name).into_owned();
            ports.push(Offered { wire, places, name });
            rest = after;
        }
        let reason = String::from_utf8_lossy(rest).into_owned();
        Ok(Self { number: u64::from_le_bytes(*number), kind, ports, reason })
    }
}

/// Reads nonsense, to be given it by tests.
pub(crate) fn decode(bytes: &[u8]) {
    if let Ok(offer) = Offer::from_bytes(bytes) {
        let again = Offer::from_bytes(&offer.to_bytes());
        assert!(again.is_ok_and(|again| again.ports.len() == offer.ports.len()), "{offer:?}");
    }
}

/// Offers, to be changed at random.
pub(crate) fn samples() -> Vec<Vec<u8>> {
    let port = |wire| Offered { wire, places: 2, name: format!("device {wire}") };
    let offers = (0..12).map(|count| Offer {
        number: u64::from(count),
        kind: [None, Some(Kind::Reliable), Some(Kind::Unreliable)][usize::from(count % 3)],
        ports: (1..count).map(port).collect(),
        reason: "a reason".repeat(usize::from(count)),
    });
    offers.map(|offer| offer.to_bytes()).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn offer(wires: &[u8]) -> Offer {
        let ports = wires.iter().map(|&wire| Offered { wire, places: 2, name: format!("w{wire}") });
        Offer { number: 7, kind: None, ports: ports.collect(), reason: String::new() }
    }

    #[test]
    fn offers_are_read_as_they_were_written() {
        for offer in [offer(&[3, 2]), offer(&[]), Offer::none("there is no device", 9)] {
            assert_eq!(Offer::from_bytes(&offer.to_bytes()).unwrap(), offer);
        }
        let bytes = offer(&[1, 3]).to_bytes();
        for len in 0..bytes.len() {
            assert!(Offer::from_bytes(&bytes[..len]).is_err(), "{len} bytes");
        }
        assert!(Offer::from_bytes(&[0xFF; 40]).is_err());
    }

    #[test]
    fn both_ends_try_the_same_pairs_in_the_same_order() {
        let (lower, higher) = (offer(&[2, 3, 3]), offer(&[3, 2]));
        let ours = lower.pairs(&higher, true);
        let theirs = higher.pairs(&lower, false);
        let turned: Vec<_> =
            theirs.into_iter().map(|(here, there, place)| (there, here, place)).collect();
        assert_eq!(ours, turned);
        assert_eq!(ours, [(0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1), (2, 0, 0), (2, 0, 1)]);
    }

    #[test]
    fn thunderbolt_is_unreliable_and_the_rest_as_both_want() {
        let (ours, mut theirs) = (offer(&[3, 2]), offer(&[3, 2]));
        assert_eq!(ours.kind_with(&theirs, 0), Kind::Unreliable);
        assert_eq!(ours.kind_with(&theirs, 1), Kind::Reliable);
        theirs.kind = Some(Kind::Unreliable);
        assert_eq!(ours.kind_with(&theirs, 1), Kind::Unreliable);
    }
}
