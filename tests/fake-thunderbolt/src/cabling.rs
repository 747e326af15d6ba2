//! Which ports there are, and which cable joins which two.
//!
//! Thunderbolt has no switch: a port has one peer, and reaches nobody else (`apple-rdma.md` 1.3).

use std::{fmt, str::FromStr};

use pangea_rdma::verbs::sys::ibv_gid;

/// Number of a host's first port: its devices are `rdma_en2`, `rdma_en3`, ...
const FIRST_PORT: u8 = 2;
/// Hosts and ports are numbered below this: together they are the low byte of a QP's number.
const NUMBERS: u8 = 16;
/// Entries of a port's GID table (1.2).
pub(crate) const GIDS: usize = 3;

/// A port of a host, spelled `0.en2`: the second number is the network interface's.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Port {
    pub(crate) host: u8,
    pub(crate) number: u8,
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.en{}", self.host, self.number)
    }
}

impl FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().ok().filter(|&number: &u8| number < NUMBERS);
        let parts = text.split_once(".en");
        let port = parts.and_then(|(host, port)| Some((number(host)?, number(port)?)));
        let (host, number) = port.ok_or_else(|| {
            format!("`{text}` is no port: write HOST.enNUMBER, both below {NUMBERS}, as `0.en2`")
        })?;
        Ok(Self { host, number })
    }
}

/// All cables between the hosts.
#[derive(Clone, Debug)]
pub(crate) struct Cabling {
    cables: Vec<[Port; 2]>,
}

impl Cabling {
    /// One cable between every two of `hosts` hosts.
    pub(crate) fn mesh(hosts: u8) -> Result<Self, String> {
        if hosts > NUMBERS - FIRST_PORT + 1 {
            return Err(format!(
                "{hosts} hosts have more than {NUMBERS} ports: describe the cables"
            ));
        }
        // The first port leads to the lowest other host, and so on.
        let port = |host, peer| Port { host, number: FIRST_PORT + peer - u8::from(peer > host) };
        let pairs = (0..hosts).flat_map(|low| (low + 1..hosts).map(move |high| (low, high)));
        let cables = pairs.map(|(low, high)| [port(low, high), port(high, low)]).collect();
        Ok(Self { cables })
    }

    /// The host's ports that have a cable.
    pub(crate) fn ports(&self, host: u8) -> Vec<Port> {
        let ends = self.cables.iter().flatten();
        let mut ports: Vec<_> = ends.filter(|port| port.host == host).copied().collect();
        ports.sort();
        ports
    }

    /// The port at the other end of the cable.
    pub(crate) fn peer(&self, port: Port) -> Option<Port> {
        let (cable, end) = self.find(port)?;
        Some(self.cables[cable][1 - end])
    }

    /// The port's GID table (1.2): an address made from its MAC, its IPv4 address, another.
    pub(crate) fn gids(&self, port: Port) -> Option<[ibv_gid; GIDS]> {
        let (cable, end) = self.find(port)?;
        let mut gids = [ibv_gid::default(); GIDS];
        let Port { host, number } = port;
        gids[0].raw = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x36, 0, 0, 0xff, 0xfe, 0, host, number];
        // Each cable is a network of its own, as `mlx.distributed_config` makes them (2).
        let (cable, end) = (u8::try_from(cable).ok()?, u8::try_from(end + 1).ok()?);
        gids[1].raw = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, cable, end];
        gids[2].raw = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x4c, 0x11, 0, 7, 0, 0, host, number];
        Some(gids)
    }

    /// The port's cable, and which end of it.
    fn find(&self, port: Port) -> Option<(usize, usize)> {
        let end = |cable: &[Port; 2]| cable.iter().position(|&end| end == port);
        self.cables.iter().enumerate().find_map(|(index, cable)| Some((index, end(cable)?)))
    }
}

impl FromStr for Cabling {
    type Err = String;

    /// Reads `0.en2-1.en2,0.en3-2.en2`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut cables: Vec<[Port; 2]> = Vec::new();
        for cable in text.split(',').filter(|cable| !cable.is_empty()) {
            let bad = || format!("`{cable}` is no cable: write PORT-PORT, as `0.en2-1.en2`");
            let (one, other) = cable.split_once('-').ok_or_else(bad)?;
            let ends: [Port; 2] = [one.parse()?, other.parse()?];
            let taken = ends.iter().find(|end| cables.iter().flatten().any(|port| port == *end));
            if let Some(port) = taken.or((ends[0] == ends[1]).then_some(&ends[0])) {
                return Err(format!("`{cable}`: {port} has a cable already"));
            }
            cables.push(ends);
        }
        if cables.len() > usize::from(u8::MAX) {
            return Err(format!("{} cables: at most {} have addresses", cables.len(), u8::MAX));
        }
        Ok(Self { cables })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(text: &str) -> Port {
        text.parse().unwrap()
    }

    #[test]
    fn in_a_mesh_every_two_hosts_share_one_cable() {
        let mesh = Cabling::mesh(4).unwrap();
        for host in 0..4 {
            let ports = mesh.ports(host);
            let mut peers: Vec<_> = ports.iter().map(|&port| mesh.peer(port).unwrap()).collect();
            assert!(ports.iter().zip(&peers).all(|(&port, &peer)| mesh.peer(peer) == Some(port)));
            peers.sort();
            let others = (0..4).filter(|&other| other != host);
            assert!(peers.iter().map(|peer| peer.host).eq(others), "{host}: {peers:?}");
        }
        assert_eq!(mesh.peer(port("0.en2")), Some(port("1.en2")));
        assert_eq!(mesh.peer(port("3.en4")), Some(port("2.en4")));
    }

    #[test]
    fn cables_are_as_described() {
        let cabling: Cabling = "0.en2-1.en5,0.en3-1.en2".parse().unwrap();
        assert_eq!(cabling.ports(0), [port("0.en2"), port("0.en3")]);
        assert_eq!(cabling.peer(port("1.en5")), Some(port("0.en2")));
        assert_eq!(cabling.peer(port("1.en3")), None);
    }

    #[test]
    fn a_bad_description_is_refused_with_its_reason() {
        for (text, reason) in [
            ("0.en2", "PORT-PORT"),
            ("0.en2-1", "HOST.enNUMBER"),
            ("0.en2-16.en2", "below 16"),
            ("0.en2-1.en2,2.en2-1.en2", "1.en2 has a cable already"),
            ("0.en2-0.en2", "0.en2 has a cable already"),
        ] {
            let error = text.parse::<Cabling>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(Cabling::mesh(16).unwrap_err().contains("describe the cables"));
    }
}
