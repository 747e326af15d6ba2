//! Network interfaces, as `networksetup` and `ifconfig` tell.

use std::collections::BTreeMap;

/// An interface.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Interface {
    pub(super) is_up: bool,
    /// IPv4 addresses.
    pub(super) addresses: Vec<String>,
    /// The interfaces of a bridge.
    pub(super) members: Vec<String>,
}

/// The interface of each hardware port, as `networksetup -listallhardwareports` prints them:
/// `Thunderbolt 1` is `en2`, say.
pub(super) fn parse_hardware_ports(text: &str) -> BTreeMap<String, String> {
    let mut interfaces = BTreeMap::new();
    let mut port = "";
    for line in text.lines() {
        match line.trim().split_once(": ") {
            Some(("Hardware Port", name)) => port = name,
            Some(("Device", device)) => _ = interfaces.insert(port.to_owned(), device.to_owned()),
            _ => {}
        }
    }
    interfaces
}

/// The interfaces that `ifconfig` prints, by name: each begins at the start of a line.
pub(super) fn parse_ifconfig(text: &str) -> BTreeMap<String, Interface> {
    let mut interfaces: BTreeMap<String, Interface> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some((start, flags)) = line.split_once(": flags=").filter(|_| !starts_blank(line)) {
            start.clone_into(&mut name);
            let is_up = flags.split(['<', ',', '>']).any(|flag| flag == "UP");
            interfaces.insert(name.clone(), Interface { is_up, ..Interface::default() });
            continue;
        }
        let Some(interface) = interfaces.get_mut(&name) else { continue };
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("inet"), Some(address)) => interface.addresses.push(address.to_owned()),
            (Some("member:"), Some(member)) => interface.members.push(member.to_owned()),
            _ => {}
        }
    }
    interfaces
}

fn starts_blank(line: &str) -> bool {
    line.starts_with(char::is_whitespace)
}
