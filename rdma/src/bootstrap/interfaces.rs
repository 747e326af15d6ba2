//! The addresses of this host.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ptr,
};

use crate::{Error, Result};

/// Every address by which others may reach this host, or itself by loopback. Those that mean
/// something on one link only (`fe80::`) are left out: another host cannot name the link.
pub(super) fn addresses() -> Result<Vec<IpAddr>> {
    let mut list = ptr::null_mut();
    // SAFETY: the call fills `list`.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(Error::last_os("getifaddrs"));
    }
    let mut found = Vec::new();
    let mut next: *const libc::ifaddrs = list;
    // SAFETY: `next` is null or an entry of the list, which is freed below.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        let is_up = entry.ifa_flags & up() == up();
        // SAFETY: the entry's address is null or a whole one of the family it names.
        let address = unsafe { address_of(entry.ifa_addr) };
        found.extend(address.filter(|address| is_up && !is_of_link(*address)));
    }
    // SAFETY: `list` came from `getifaddrs`, and nothing points into it any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// How many bits two addresses have in common at their start: those of one subnet have the most.
pub(super) fn common_bits(one: IpAddr, other: IpAddr) -> u32 {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => 0,
    }
}

/// Flags of an interface that can be used.
fn up() -> libc::c_uint {
    (libc::IFF_UP | libc::IFF_RUNNING).cast_unsigned()
}

fn is_of_link(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// The address at `address`; `None` where it is null or of another family than IP.
///
/// # Safety
///
/// `address` is null, or points to a whole socket address of the family it names.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller vouches for the pointer; the head is common to all families.
    let family = unsafe { address.as_ref() }?.sa_family;
    match libc::c_int::from(family) {
        libc::AF_INET => {
            // SAFETY: an address of this family; it need not be aligned for it.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_loopback() {
        assert!(addresses().unwrap().contains(&Ipv4Addr::LOCALHOST.into()));
    }

    #[test]
    fn addresses_of_one_subnet_have_more_in_common() {
        let bits = |one: [u8; 4], other: [u8; 4]| common_bits(one.into(), other.into());
        assert_eq!(bits([10, 0, 0, 1], [10, 0, 0, 2]), 30);
        assert!(bits([10, 0, 0, 1], [10, 1, 0, 2]) < 16);
        assert_eq!(common_bits([10, 0, 0, 1].into(), Ipv6Addr::LOCALHOST.into()), 0);
    }
}
