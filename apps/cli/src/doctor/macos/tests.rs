//! Macs as their commands describe them, in the formats of macOS 26.

use serde_json::json;

use super::{
    network::{parse_hardware_ports, parse_ifconfig},
    rdma::{parse_devices, parse_devinfo},
    thunderbolt::{Link, parse},
    *,
};
use crate::doctor::machine::{Trouble, fixture::Fixture};

const HARDWARE_PORTS: &str = "
Hardware Port: Ethernet
Device: en0
Ethernet Address: 02:00:00:00:00:01

Hardware Port: Thunderbolt 1
Device: en2
Ethernet Address: 02:00:00:00:00:02

Hardware Port: Thunderbolt 2
Device: en3
Ethernet Address: 02:00:00:00:00:03

Hardware Port: Thunderbolt Bridge
Device: bridge0
Ethernet Address: 02:00:00:00:00:02
";

const IBV_DEVICES: &str = "    device          \t   node GUID
    ------          \t----------------
    rdma_en2        \td0b5e9ab23cfac05
    rdma_en3        \td1b5e9ab23cfac05
";

const SLEEPLESS: &str = "System-wide power settings:
Currently in use:
 standby              0
 sleep                0
 displaysleep         10
";

/// What `ifconfig` prints of a Mac whose en3 has an address, and whose bridge has `members`.
fn ifconfig(members: &[&str]) -> String {
    let members: String = members
        .iter()
        .map(|member| format!("\tmember: {member} flags=3<LEARNING,DISCOVER>\n\t        port 9\n"))
        .collect();
    format!(
        "lo0: flags=8049<UP,LOOPBACK,RUNNING> mtu 16384\n\tinet 127.0.0.1 netmask 0xff000000\n\
         en2: flags=8963<UP,BROADCAST> mtu 1500\n\tether 02:00:00:00:00:02\n\tstatus: active\n\
         en3: flags=8963<UP,BROADCAST> mtu 1500\n\tinet6 fe80::1%en3 prefixlen 64 scopeid 0x9\n\
         \tinet 192.168.10.1 netmask 0xfffffffc broadcast 192.168.10.3\n\tstatus: active\n\
         bridge0: flags=8863<UP,BROADCAST,SMART,RUNNING> mtu 1500\n{members}\tstatus: inactive\n"
    )
}

/// What `ibv_devinfo -v` prints of a Mac whose rdma_en3 is in `state`; rdma_en2 is active.
fn devinfo(state: &str) -> String {
    let device = |name: &str, state: &str| {
        format!(
            "hca_id:\t{name}\n\ttransport:\t\t\tThunderbolt (100)\n\tphys_port_cnt:\t\t\t1\n\
             \t\tport:\t1\n\t\t\tstate:\t\t\t{state}\n\t\t\tactive_mtu:\t\t4096 (5)\n\
             \t\t\tlink_layer:\t\tThunderbolt\n\
             \t\t\tGID[  0]:\t\tfe80:0000:0000:0000:0000:0000:0000:0001\n\
             \t\t\tGID[  1]:\t\t0000:0000:0000:0000:0000:ffff:c0a8:0a01\n\
             \t\t\tGID[  2]:\t\t0000:0000:0000:0000:0000:0000:0000:0000\n\n"
        )
    };
    device("rdma_en2", "PORT_ACTIVE (4)") + &device("rdma_en3", state)
}

/// A port with nothing in it.
fn idle(number: u32, speed: &str) -> serde_json::Value {
    json!({
        "_name": format!("thunderboltusb4_bus_{}", number - 1),
        "device_name_key": "Mac Studio",
        "domain_uuid_key": format!("0A00000{number}-0000-4000-8000-000000000001"),
        "receptacle_1_tag": {
            "current_speed_key": speed,
            "link_status_key": "0x100",
            "receptacle_id_key": number.to_string(),
            "receptacle_status_key": "receptacle_no_devices_connected",
        },
        "route_string_key": "0",
        "switch_uid_key": "0x05AC000000000001",
        "vendor_name_key": "Apple Inc.",
    })
}

/// A port to a bus of another Mac.
fn cable(number: u32, speed: &str, domain: &str) -> serde_json::Value {
    let mut port = idle(number, speed);
    port["receptacle_1_tag"]["receptacle_status_key"] = "receptacle_connected".into();
    port["_items"] = json!([{
        "_name": "Mac mini", "device_name_key": "Mac16,11", "domain_uuid_key": domain
    }]);
    port
}

const PEER: &str = "0B000001-0000-4000-8000-000000000001";

fn thunderbolt(ports: &[serde_json::Value]) -> String {
    json!({ "SPThunderboltDataType": ports }).to_string()
}

/// A Mac Studio with a good cable from port 2, on which all is well.
fn mac() -> Fixture {
    let ports = thunderbolt(&[cable(2, "80 Gb/s", PEER), idle(1, "Up to 120 Gb/s")]);
    Fixture::new(&[
        ("sw_vers -productVersion", "26.3\n"),
        ("rdma_ctl status", "enabled\n"),
        ("system_profiler SPThunderboltDataType -json", &ports),
        ("networksetup -listallhardwareports", HARDWARE_PORTS),
        ("ifconfig", &ifconfig(&[])),
        ("ibv_devices", IBV_DEVICES),
        ("ibv_devinfo -v", &devinfo("PORT_ACTIVE (4)")),
        ("pmset -g", SLEEPLESS),
        (
            "ioclasscount AppleThunderboltRDMAProtectionDomain",
            "AppleThunderboltRDMAProtectionDomain = 0\n",
        ),
        (
            "/usr/libexec/ApplicationFirewall/socketfilterfw --getglobalstate",
            "Firewall is disabled. (State = 0)\n",
        ),
    ])
}

fn with_ports(ports: &[serde_json::Value]) -> Fixture {
    mac().with("system_profiler SPThunderboltDataType -json", Ok(thunderbolt(ports)))
}

/// The check called `name`.
fn check(machine: &Fixture, name: &str) -> Check {
    let checks = checks(machine);
    let found = checks.iter().find(|check| check.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {checks:?}")).clone()
}

/// Checks that `name` is in `state`, and says `found` and what to do: `remedy`.
fn expect(machine: &Fixture, name: &str, state: State, words: [&str; 2]) {
    let check = check(machine, name);
    assert_eq!(check.state, state, "{check}");
    assert!(check.found.contains(words[0]), "{check}");
    assert!(check.remedy.clone().unwrap_or_default().contains(words[1]), "{check}");
}

#[test]
fn a_mac_on_which_all_is_well_has_no_remedies() {
    let checks = checks(&mac());
    assert!(checks.iter().all(|check| check.remedy.is_none()), "{checks:#?}");
    let found = "80 Gb/s to Mac mini (domain 0B000001), en3, rdma_en3 PORT_ACTIVE, 2 GIDs, \
                 192.168.10.1";
    assert_eq!(check(&mac(), "Thunderbolt 2"), Check::ok("Thunderbolt 2", found));
    assert_eq!(check(&mac(), "Thunderbolt 1").state, State::NotApplicable);
}

#[test]
fn a_mac_of_which_nothing_is_known_is_described_all_the_same() {
    let checks = checks(&Fixture::default());
    assert!(checks.iter().all(|check| check.state != State::Problem), "{checks:#?}");
}

#[test]
fn old_macos_and_disabled_rdma_are_problems_to_who_has_the_cable() {
    let old = mac().with("sw_vers -productVersion", Ok("26.1.1\n".to_owned()));
    expect(&old, "macOS", State::Problem, ["26.1.1", "26.2"]);
    let disabled = |machine: Fixture| machine.with("rdma_ctl status", Ok("disabled\n".to_owned()));
    expect(&disabled(mac()), "RDMA", State::Problem, ["disabled", "Recovery"]);
    let without_cable = disabled(with_ports(&[idle(1, "Up to 120 Gb/s")]));
    expect(&without_cable, "RDMA", State::Warning, ["disabled", "Recovery"]);
    let missing = mac().with("rdma_ctl status", Err(Trouble::Missing));
    expect(&missing, "RDMA", State::Problem, ["no rdma_ctl", "26.2"]);
}

#[test]
fn a_slow_cable_is_told_from_a_slow_mac() {
    let slow = cable(2, "40 Gb/s", PEER);
    let cable = with_ports(&[slow.clone(), idle(1, "Up to 120 Gb/s")]);
    expect(&cable, "Thunderbolt 2", State::Problem, ["not Thunderbolt 5", "5 cable"]);
    let mac = with_ports(&[slow, idle(1, "Up to 40 Gb/s")]);
    expect(&mac, "Thunderbolt 2", State::Warning, ["no Thunderbolt 5", "TCP"]);
}

#[test]
fn a_cable_that_leads_back_is_found() {
    let own = "0A000001-0000-4000-8000-000000000001";
    let looped = with_ports(&[cable(2, "80 Gb/s", own), idle(1, "Up to 120 Gb/s")]);
    expect(&looped, "Thunderbolt 2", State::Problem, ["back to this Mac", "other Mac"]);
}

#[test]
fn a_port_that_is_down_says_where_to_look() {
    let down = mac().with("ibv_devinfo -v", Ok(devinfo("PORT_DOWN (1)")));
    expect(&down, "Thunderbolt 2", State::Problem, ["rdma_en3 is PORT_DOWN", "other Mac"]);
    let jack = with_ports(&[cable(1, "80 Gb/s", PEER)]);
    let devinfo = devinfo("PORT_DOWN (1)").replacen("PORT_ACTIVE (4)", "PORT_DOWN (1)", 1);
    let jack = jack.with("ibv_devinfo -v", Ok(devinfo));
    expect(&jack, "Thunderbolt 1", State::Problem, ["rdma_en2", "Ethernet jack"]);
    let none = mac().with("ibv_devices", Ok("    device\n    ------\n".to_owned()));
    expect(&none, "Thunderbolt 2", State::Problem, ["no rdma_en3", "enable RDMA"]);
}

#[test]
fn a_driver_that_hangs_is_told_once() {
    let hung = mac().with("ibv_devinfo -v", Err(Trouble::Hung));
    expect(&hung, "RDMA devices", State::Problem, ["did not end", "switch it on"]);
    assert_eq!(check(&hung, "Thunderbolt 2").state, State::Ok);
}

#[test]
fn an_interface_without_address_is_a_problem() {
    let bare = ifconfig(&[]).replace("\tinet 192.168.10.1", "\tinet-was 192.168.10.1");
    let bare = mac().with("ifconfig", Ok(bare));
    expect(&bare, "Thunderbolt 2", State::Problem, ["no IPv4", "ifconfig en3"]);
}

#[test]
fn a_bridge_over_one_cable_hinders_and_over_two_it_loops() {
    let one = mac().with("ifconfig", Ok(ifconfig(&["en3"])));
    expect(&one, "Thunderbolt 2", State::Problem, ["Thunderbolt Bridge", "deletem en3"]);
    expect(&one, "Thunderbolt Bridge", State::Warning, ["over en3", "bridge0 down"]);
    let cables = [cable(1, "80 Gb/s", PEER), cable(2, "80 Gb/s", PEER)];
    let two = with_ports(&cables).with("ifconfig", Ok(ifconfig(&["en2", "en3"])));
    expect(&two, "Thunderbolt Bridge", State::Problem, ["en2, en3", "inactive"]);
}

#[test]
fn sleep_firewall_and_leftovers_are_warnings() {
    let sleepy = " sleep                1 (sleep prevented by powerd)\n displaysleep 10\n";
    let sleepy = mac().with("pmset -g", Ok(sleepy.to_owned()));
    expect(&sleepy, "sleep", State::Warning, ["after 1 min", "caffeinate"]);
    let question = "ioclasscount AppleThunderboltRDMAProtectionDomain";
    let answer = "AppleThunderboltRDMAProtectionDomain = 7\n";
    let stale = mac().with(question, Ok(answer.to_owned()));
    expect(&stale, "RDMA resources", State::Warning, ["7 protection", "restart"]);
    let question = "/usr/libexec/ApplicationFirewall/socketfilterfw --getglobalstate";
    let walled = mac().with(question, Ok("Firewall is enabled. (State = 1)\n".to_owned()));
    expect(&walled, "firewall", State::Warning, ["on", "--add"]);
}

#[test]
fn a_dock_is_no_mac_and_a_mac_behind_it_is_none_either() {
    let mut dock = idle(3, "40 Gb/s");
    dock["_items"] = json!([{ "_name": "Dock", "_items": [{ "domain_uuid_key": PEER }] }]);
    let ports = parse(&thunderbolt(&[dock])).unwrap();
    assert_eq!(ports[0].link, Link::Devices("Dock".to_owned()));
    assert!(!ports[0].can_rdma());
}

#[test]
fn what_is_no_description_is_an_error_and_no_panic() {
    for text in ["", "{}", "[]", "not json", r#"{"SPThunderboltDataType":{}}"#] {
        assert!(parse(text).is_err(), "{text}");
    }
    let odd = r#"{"SPThunderboltDataType":[1, null, {"receptacle_1_tag": 2}, {"_items": 3}]}"#;
    assert_eq!(parse(odd).unwrap().len(), 1);
    assert!(parse_devices("none").is_empty());
    assert!(parse_devinfo("state: PORT_DOWN\nGID[0]: 1::").is_empty());
    assert!(parse_ifconfig("\tinet 1.2.3.4\n").is_empty());
    assert!(parse_hardware_ports("Hardware Port\nDevice").is_empty());
}
