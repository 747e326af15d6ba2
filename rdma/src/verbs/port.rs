//! A port that is up, and what the two ends of a connection tell each other.

use std::sync::Arc;

use super::{
    device::{Context, Device},
    gid::Gid,
    library::Library,
    sys,
};
use crate::{Error, Result};

/// What a port is wired with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wire {
    /// InfiniBand: addressed by local numbers.
    InfiniBand,
    /// Ethernet, as soft-RoCE too.
    Ethernet,
    /// A Thunderbolt cable: one peer, unreliable connections only.
    Thunderbolt,
}

/// A port that was active when it was looked for: nothing is made on a port that is not, which
/// some drivers do not survive.
#[derive(Clone, Debug)]
pub struct Port {
    context: Arc<Context>,
    number: u8,
    wire: Wire,
    lid: u16,
    mtu: u8,
    message_len_max: u32,
    gids: Vec<Gid>,
}

impl Port {
    /// The first active port of every device that has one, or an error that says what is wrong
    /// with each device.
    pub fn all_active(library: &Arc<Library>) -> Result<Vec<Self>> {
        let (mut ports, mut refusals) = (Vec::new(), Vec::new());
        for device in Device::all(library)? {
            match device.open().and_then(|context| Self::first_active(&context)) {
                Ok(port) => ports.push(port),
                Err(error) => refusals.push(error.to_string()),
            }
        }
        if ports.is_empty() {
            let none = "there is no device".to_owned();
            return Err(Error::Device {
                device: library.name().to_owned(),
                call: "looking for devices",
                reason: if refusals.is_empty() { none } else { refusals.join("; ") },
            });
        }
        Ok(ports)
    }

    /// The first active port of a device, or an error that tells the state of each.
    pub fn first_active(context: &Arc<Context>) -> Result<Self> {
        let mut states = Vec::new();
        for number in context.ports() {
            let found = context.port_attributes(number)?;
            if found.state == sys::IBV_PORT_ACTIVE {
                return Self::new(context, number, &found);
            }
            states.push(format!("port {number} is {}", state_name(found.state)));
        }
        Err(Error::Device {
            device: context.name().to_owned(),
            call: "looking for an active port",
            reason: format!(
                "{}; is the cable in, and RDMA enabled at its other end?",
                if states.is_empty() { "it has none".to_owned() } else { states.join(", ") }
            ),
        })
    }

    fn new(context: &Arc<Context>, number: u8, found: &sys::ibv_port_attr) -> Result<Self> {
        let mut gids = context.gids(number, found.gid_tbl_len);
        Gid::sort(&mut gids);
        let wire = match found.link_layer {
            sys::IBV_LINK_LAYER_THUNDERBOLT => Wire::Thunderbolt,
            sys::IBV_LINK_LAYER_ETHERNET => Wire::Ethernet,
            _ => Wire::InfiniBand,
        };
        if gids.is_empty() && wire != Wire::InfiniBand {
            return Err(Error::Device {
                device: context.name().to_owned(),
                call: "reading a port's addresses",
                reason: "it has none: give its network interface an IP address".to_owned(),
            });
        }
        Ok(Self {
            context: context.clone(),
            number,
            wire,
            lid: found.lid,
            mtu: u8::try_from(found.active_mtu).unwrap_or(1).clamp(1, 5),
            message_len_max: found.max_msg_sz,
            gids,
        })
    }

    /// Its device.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Its number on the device, counted from one.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// What it is wired with.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// Its number in an InfiniBand network.
    pub fn lid(&self) -> u16 {
        self.lid
    }

    /// Its packet size, by the header's number: 1 is 256 bytes, 5 is 4,096.
    pub fn mtu(&self) -> u8 {
        self.mtu
    }

    /// Bytes that one operation may move.
    pub fn message_len_max(&self) -> u32 {
        self.message_len_max.max(4096)
    }

    /// Its addresses, in the order in which they are to be tried. The two ends of a connection try
    /// the same place of their lists at the same time, and the next where that is refused.
    pub fn gids(&self) -> &[Gid] {
        &self.gids
    }

    /// Whether it is still active.
    pub fn is_active(&self) -> bool {
        let found = self.context.port_attributes(self.number);
        found.is_ok_and(|found| found.state == sys::IBV_PORT_ACTIVE)
    }
}

fn state_name(state: u32) -> String {
    match state {
        sys::IBV_PORT_DOWN => "down".to_owned(),
        sys::IBV_PORT_INIT => "initialising".to_owned(),
        sys::IBV_PORT_ARMED => "armed".to_owned(),
        other => format!("in state {other}"),
    }
}

/// Bytes of an endpoint as it travels.
pub const ENDPOINT_LEN: usize = 32;

/// One end of a connection: what the other must know of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Endpoint {
    /// The number of its queue pair, of 24 bits.
    pub queue_pair: u32,
    /// The number of the first packet that it will send, of 24 bits.
    pub first_packet: u32,
    /// Its port's number in an InfiniBand network.
    pub lid: u16,
    /// Its port's packet size, by the header's number; the smaller one of the two is taken.
    pub mtu: u8,
    /// Reads and atomics that it takes at a time.
    pub reads_served: u8,
    /// Its port's address.
    pub gid: [u8; 16],
}

impl Endpoint {
    /// The endpoint as it travels, little-endian: queue pair (4), first packet (4), lid (2), mtu
    /// (1), reads served (1), zero (4), gid (16).
    pub fn to_bytes(self) -> [u8; ENDPOINT_LEN] {
        let mut bytes = [0; ENDPOINT_LEN];
        bytes[0..4].copy_from_slice(&self.queue_pair.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.first_packet.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.lid.to_le_bytes());
        bytes[10] = self.mtu;
        bytes[11] = self.reads_served;
        bytes[16..32].copy_from_slice(&self.gid);
        bytes
    }

    /// The endpoint that a peer sent.
    pub fn from_bytes(bytes: &[u8; ENDPOINT_LEN]) -> Result<Self> {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|index| bytes[at + index]));
        let endpoint = Self {
            queue_pair: word(0),
            first_packet: word(4),
            lid: u16::from_le_bytes([bytes[8], bytes[9]]),
            mtu: bytes[10],
            reads_served: bytes[11],
            gid: std::array::from_fn(|index| bytes[16 + index]),
        };
        let fits = endpoint.queue_pair >> 24 == 0 && endpoint.first_packet >> 24 == 0;
        if !fits || !(1..=5).contains(&endpoint.mtu) || word(12) != 0 {
            return Err(Error::protocol(format!("a peer's endpoint is impossible: {endpoint:?}")));
        }
        Ok(endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: Endpoint = Endpoint {
        queue_pair: 0x0012_3456,
        first_packet: 0x00ab_cdef,
        lid: 7,
        mtu: 3,
        reads_served: 16,
        gid: [9; 16],
    };

    #[test]
    fn an_endpoint_travels_unchanged() {
        assert_eq!(Endpoint::from_bytes(&ENDPOINT.to_bytes()).unwrap(), ENDPOINT);
    }

    #[test]
    fn an_impossible_endpoint_is_refused() {
        for (at, byte) in [(3, 1), (7, 1), (10, 0), (10, 6), (15, 1)] {
            let mut bytes = ENDPOINT.to_bytes();
            bytes[at] = byte;
            let error = Endpoint::from_bytes(&bytes).unwrap_err();
            assert!(matches!(error, Error::Protocol { .. }), "byte {at} as {byte}: {error}");
        }
    }
}
