//! Each Thunderbolt port with everything that must be right for RDMA: the cable, the interface, the
//! device, the address.

use std::collections::BTreeMap;

use super::{
    network::{Interface, parse_hardware_ports, parse_ifconfig},
    rdma::{self, Device},
    thunderbolt::{Link, Port, THUNDERBOLT_5},
};
use crate::doctor::{
    check::{Check, State},
    machine::{Machine, Trouble},
};

/// A check of every port, and of the bridge over them.
pub(super) fn checks(machine: &dyn Machine, ports: &[Port]) -> Vec<Check> {
    let hardware = machine.run(&["networksetup", "-listallhardwareports"]).unwrap_or_default();
    let mac = Mac {
        ports,
        names: parse_hardware_ports(&hardware),
        interfaces: parse_ifconfig(&machine.run(&["ifconfig"]).unwrap_or_default()),
        devices: rdma::devices(machine),
    };
    let mut checks: Vec<Check> = ports.iter().map(|port| mac.check(port)).collect();
    if !ports.iter().any(|port| matches!(port.link, Link::Mac { .. })) {
        checks.push(Check::not_applicable("cables", "no other Mac is at a Thunderbolt port"));
    }
    if let Err(Trouble::Hung) = mac.devices {
        checks.push(Check::problem(
            "RDMA devices",
            Trouble::Hung.found("ibv_devinfo"),
            "a program that used RDMA was killed: shut this Mac down, wait, switch it on",
        ));
    }
    checks.push(mac.bridge());
    checks
}

/// What is known of this Mac.
struct Mac<'a> {
    ports: &'a [Port],
    /// The interface of each hardware port.
    names: BTreeMap<String, String>,
    interfaces: BTreeMap<String, Interface>,
    devices: Result<Vec<Device>, Trouble>,
}

impl Mac<'_> {
    fn check(&self, port: &Port) -> Check {
        let name = format!("Thunderbolt {}", port.number);
        let (peer, domain, speed) = match &port.link {
            Link::Nothing => return Check::not_applicable(name, "nothing is connected"),
            Link::Devices(names) => return Check::not_applicable(name, names),
            Link::Mac { name, domain, speed } => (name, domain, *speed),
        };
        let mut found = format!("{speed} Gb/s to {peer} (domain {})", short(domain));
        if let Some((state, trouble, remedy)) = self.cable_trouble(port, domain, speed) {
            found = format!("{found}: {trouble}");
            return Check { state, ..Check::warning(name, found, remedy) };
        }
        let Some(interface) = self.interface_of(port) else {
            let remedy = "add it in System Settings > Network";
            return Check::problem(name, format!("{found}: no network interface"), remedy);
        };
        found = format!("{found}, {interface}");
        match self.trouble(port, interface) {
            None => Check::ok(name, format!("{found}, {}", self.describe(interface))),
            Some((trouble, remedy)) => Check::problem(name, format!("{found}: {trouble}"), remedy),
        }
    }

    /// What is wrong with the cable of a port, or with what it leads to.
    fn cable_trouble(
        &self,
        port: &Port,
        domain: &str,
        speed: u32,
    ) -> Option<(State, &'static str, &'static str)> {
        if self.ports.iter().any(|port| port.domain == domain) {
            return Some((
                State::Problem,
                "it leads back to this Mac",
                "plug it into the other Mac",
            ));
        }
        if speed >= THUNDERBOLT_5 {
            return None;
        }
        let fastest = self.ports.iter().map(|port| port.capability).max().unwrap_or(0);
        if fastest.max(port.capability) < THUNDERBOLT_5 {
            let remedy = "RDMA needs Thunderbolt 5 in both Macs; TCP serves over this cable";
            return Some((State::Warning, "this Mac has no Thunderbolt 5", remedy));
        }
        let remedy = "use a Thunderbolt 5 cable (80 Gb/s) between Thunderbolt 5 ports";
        Some((State::Problem, "not Thunderbolt 5, so that there is no RDMA", remedy))
    }

    /// What keeps a fast cable from carrying RDMA.
    fn trouble(&self, port: &Port, interface: &str) -> Option<(String, String)> {
        // What is wrong with all devices is told once.
        let devices = self.devices.as_deref().ok()?;
        let name = format!("rdma_{interface}");
        let Some(device) = devices.iter().find(|device| device.name == name) else {
            return Some((
                format!("there is no {name}"),
                "enable RDMA (rdma_ctl status)".to_owned(),
            ));
        };
        if !device.is_active() {
            let jack = "this is the port beside the Ethernet jack, which has no RDMA: use another";
            let both = "see that RDMA is enabled on the other Mac too, that both have the same \
                        macOS, and try another cable";
            let is_beside_jack = port.model.contains("Mac Studio") && interface == "en2";
            let remedy = if is_beside_jack { jack } else { both };
            return Some((format!("{name} is {}", device.state), remedy.to_owned()));
        }
        if self.bridges_over(interface) {
            let remedy = format!("sudo ifconfig bridge0 deletem {interface} (until the restart)");
            return Some(("it is part of the Thunderbolt Bridge".to_owned(), remedy));
        }
        let has_address = self.interfaces.get(interface).is_some_and(|it| !it.addresses.is_empty());
        if !has_address {
            let remedy = format!(
                "give each end an address of its own network, as 192.168.10.1 and .2: sudo \
                 ifconfig {interface} 192.168.10.1/30"
            );
            return Some(("it has no IPv4 address".to_owned(), remedy));
        }
        None
    }

    /// The device and the addresses of an interface.
    fn describe(&self, interface: &str) -> String {
        let name = format!("rdma_{interface}");
        let devices = self.devices.as_deref().unwrap_or_default();
        let device = devices.iter().find(|device| device.name == name);
        let addresses = self.interfaces.get(interface).map_or(&[][..], |it| &it.addresses);
        let device = device.map_or("device not known".to_owned(), |device| {
            format!("{name} {}, {} GIDs", device.state, device.gids.len())
        });
        format!("{device}, {}", addresses.join(" "))
    }

    fn interface_of(&self, port: &Port) -> Option<&str> {
        self.names.get(&format!("Thunderbolt {}", port.number)).map(String::as_str)
    }

    /// Whether a bridge that is up has this interface.
    fn bridges_over(&self, interface: &str) -> bool {
        let bridge = self.interfaces.get("bridge0").filter(|bridge| bridge.is_up);
        bridge.is_some_and(|bridge| bridge.members.iter().any(|member| member == interface))
    }

    /// A bridge over several cables sends what it receives around, without end if they make a loop.
    fn bridge(&self) -> Check {
        let name = "Thunderbolt Bridge";
        let to_macs = self.ports.iter().filter(|port| matches!(port.link, Link::Mac { .. }));
        let interfaces = to_macs.filter_map(|port| self.interface_of(port));
        let members: Vec<&str> =
            interfaces.filter(|interface| self.bridges_over(interface)).collect();
        let found = format!("over {}", members.join(", "));
        match members.len() {
            0 => Check::ok(name, "not over a cable to another Mac"),
            1 => Check::warning(name, found, "RDMA does without: sudo ifconfig bridge0 down"),
            _ => Check::problem(
                name,
                format!("{found}: cables in a loop flood it"),
                "sudo ifconfig bridge0 down, and make it inactive in System Settings > Network",
            ),
        }
    }
}

/// The first part of a UUID, enough to tell cables apart.
fn short(domain: &str) -> &str {
    domain.split('-').next().unwrap_or(domain)
}
