//! Addresses of a port, and the order in which they are tried.

use super::sys;

/// An entry of a port's table of addresses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Gid {
    /// The address, in the form of IPv6.
    pub bytes: [u8; 16],
    /// Its place in the table.
    pub index: u8,
    /// What travels under it, where the library says so.
    pub protocol: Option<Protocol>,
}

/// What frames look like on the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protocol {
    /// InfiniBand.
    InfiniBand,
    /// RoCE in Ethernet frames; does not pass routers.
    RoceV1,
    /// RoCE in UDP.
    RoceV2,
}

impl Gid {
    /// The entry at `index`; `None` where it is empty, or where no queue pair can name it.
    pub(super) fn new(bytes: [u8; 16], index: u32, kind: Option<u32>) -> Option<Self> {
        let protocol = kind.and_then(|kind| match kind {
            sys::IBV_GID_TYPE_IB => Some(Protocol::InfiniBand),
            sys::IBV_GID_TYPE_ROCE_V1 => Some(Protocol::RoceV1),
            sys::IBV_GID_TYPE_ROCE_V2 => Some(Protocol::RoceV2),
            _ => None,
        });
        let index = u8::try_from(index).ok()?;
        // An entry without an interface has a prefix at most.
        (bytes[8..] != [0; 8]).then_some(Self { bytes, index, protocol })
    }

    /// Whether it is an IPv4 address: `::ffff:a.b.c.d`.
    pub fn is_ipv4(&self) -> bool {
        self.bytes.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
    }

    /// Puts the addresses of a port in the order in which they are tried.
    ///
    /// On Ethernet, RoCE v2 over IPv4 is what passes every switch. On Thunderbolt Apple's own
    /// programs take entry 1, the IPv4 address; but a Mac may have none, and then the link-local
    /// one works where neighbours have been discovered.
    pub(super) fn sort(gids: &mut [Self]) {
        gids.sort_by_key(|gid| (gid.protocol == Some(Protocol::RoceV1), !gid.is_ipv4(), gid.index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK_LOCAL: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1];
    const IPV4: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 1];

    /// The order in which the entries are tried, by index.
    fn order(entries: &[([u8; 16], Option<u32>)]) -> Vec<u8> {
        let numbered = (0..).zip(entries);
        let mut gids: Vec<Gid> =
            numbered.filter_map(|(index, &(bytes, kind))| Gid::new(bytes, index, kind)).collect();
        Gid::sort(&mut gids);
        gids.iter().map(|gid| gid.index).collect()
    }

    #[test]
    fn thunderbolt_tries_its_ipv4_address_first() {
        assert_eq!(order(&[(LINK_LOCAL, None), (IPV4, None), (LINK_LOCAL, None)]), [1, 0, 2]);
    }

    #[test]
    fn a_mac_without_an_ipv4_address_is_still_reached() {
        assert_eq!(order(&[(LINK_LOCAL, None), ([0; 16], None)]), [0]);
    }

    #[test]
    fn roce_over_udp_comes_before_roce_that_no_router_passes() {
        let entries =
            [(LINK_LOCAL, Some(1)), (LINK_LOCAL, Some(2)), (IPV4, Some(1)), (IPV4, Some(2))];
        assert_eq!(order(&entries), [3, 1, 2, 0]);
    }
}
