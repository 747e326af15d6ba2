//! RDMA adapters, as the kernel lists them.

use crate::doctor::{check::Check, machine::Machine};

/// Where the kernel lists adapters.
const DEVICES: &str = "/sys/class/infiniband";
/// KiB that a node must be able to lock for its buffers, at the least.
const MEMLOCK_KIB: u64 = 64 << 10;

/// Looks at the library, every port of every device, and what a process may lock.
pub(super) fn checks(machine: &dyn Machine) -> Vec<Check> {
    let devices = machine.list(DEVICES);
    if devices.is_empty() {
        return vec![Check::not_applicable("RDMA", "there is no RDMA adapter")];
    }
    let mut checks = vec![library(machine), access(machine), memlock(machine)];
    for device in &devices {
        let ports = machine.list(&format!("{DEVICES}/{device}/ports"));
        checks.extend(ports.iter().map(|port| Port { device, port, machine }.check()));
    }
    checks
}

fn library(machine: &dyn Machine) -> Check {
    let name = "verbs library";
    if let Some(path) = machine.variable("PANGEA_VERBS_LIBRARY") {
        return Check::ok(name, format!("{path}, as PANGEA_VERBS_LIBRARY says"));
    }
    let known = machine.run(&["/sbin/ldconfig", "-p"]).unwrap_or_default();
    let path = known.lines().find_map(|line| {
        let (library, path) = line.trim().split_once(" => ")?;
        library.starts_with("libibverbs.so.1 ").then_some(path)
    });
    match path {
        Some(path) => Check::ok(name, path),
        None => Check::problem(
            name,
            "there is no libibverbs.so.1",
            "install it: apt install libibverbs1 ibverbs-providers, or dnf install libibverbs",
        ),
    }
}

/// Programs reach adapters through files in /dev.
fn access(machine: &dyn Machine) -> Check {
    let name = "verbs devices";
    let files = machine.list("/dev/infiniband");
    let uverbs: Vec<_> =
        files.iter().filter(|file| file.starts_with("uverbs")).map(|file| &file[..]).collect();
    if uverbs.is_empty() {
        return Check::problem(name, "/dev/infiniband is empty", "sudo modprobe ib_uverbs");
    }
    Check::ok(name, format!("/dev/infiniband: {}", uverbs.join(", ")))
}

fn memlock(machine: &dyn Machine) -> Check {
    let name = "locked memory";
    let answer = machine.run(&["sh", "-c", "ulimit -l"]).unwrap_or_default();
    match answer.trim() {
        "unlimited" => Check::ok(name, "unlimited"),
        text => match text.parse::<u64>() {
            Ok(kib) if kib >= MEMLOCK_KIB => Check::ok(name, format!("at most {kib} KiB")),
            Ok(kib) => Check::problem(
                name,
                format!("at most {kib} KiB: adapters cannot reach more of a heap"),
                "set 'memlock unlimited' in /etc/security/limits.conf, and log in again",
            ),
            Err(_) => Check::not_applicable(name, "the limit is not known"),
        },
    }
}

/// A port of an adapter.
struct Port<'a> {
    device: &'a str,
    port: &'a str,
    machine: &'a dyn Machine,
}

impl Port<'_> {
    fn check(&self) -> Check {
        let name = format!("RDMA {}/{}", self.device, self.port);
        let state = self.read("state");
        // `4: ACTIVE`
        let state = state.split_once(": ").map_or(&state[..], |(_, state)| state);
        let gids = self.gids();
        let shown = gids.first().map_or("no GID".to_owned(), |gid| format!("GID {gid}"));
        let found = format!(
            "{state}, {} at {}, {}, {shown} of {}",
            self.read("link_layer"),
            self.read("rate"),
            self.node_type(),
            gids.len(),
        );
        match state {
            "ACTIVE" if gids.is_empty() => {
                Check::problem(name, found, "give its network interface an address")
            }
            "ACTIVE" => Check::ok(name, found),
            "INIT" => Check::problem(name, found, "InfiniBand needs a subnet manager (opensm)"),
            _ => Check::warning(
                name,
                found,
                "look at the cable, and at the port of the peer; then: ip link set … up",
            ),
        }
    }

    fn read(&self, file: &str) -> String {
        let path = format!("{DEVICES}/{}/ports/{}/{file}", self.device, self.port);
        self.machine.read(&path).map_or("?".to_owned(), |text| text.trim().to_owned())
    }

    /// `CA` of `1: CA`.
    fn node_type(&self) -> String {
        let text = self.machine.read(&format!("{DEVICES}/{}/node_type", self.device));
        let text = text.unwrap_or_default();
        text.trim().split_once(": ").map_or(text.trim(), |(_, kind)| kind).to_owned()
    }

    /// The addresses of the port, with their kinds; places of the table that are empty are zero.
    fn gids(&self) -> Vec<String> {
        let table = format!("{DEVICES}/{}/ports/{}/gids", self.device, self.port);
        let mut gids = Vec::new();
        for index in self.machine.list(&table) {
            let gid = self.read(&format!("gids/{index}"));
            if gid.bytes().any(|byte| !b"0:?".contains(&byte)) {
                let kind = self.read(&format!("gid_attrs/types/{index}"));
                gids.push(if kind == "?" { gid } else { format!("{gid} ({kind})") });
            }
        }
        gids
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{check::State, machine::fixture::Fixture};

    /// A port as sysfs shows it.
    fn machine(state: &str, gid: &str) -> Fixture {
        let port = "/sys/class/infiniband/rxe0/ports/1";
        let file = |name: &str| format!("{port}/{name}");
        Fixture::new(&[
            ("/sys/class/infiniband/rxe0/node_type", "1: CA\n"),
            (&file("state"), state),
            (&file("link_layer"), "Ethernet\n"),
            (&file("rate"), "2.5 Gb/sec (1X SDR)\n"),
            (&file("gids/0"), gid),
            (&file("gids/1"), "0000:0000:0000:0000:0000:0000:0000:0000\n"),
            (&file("gid_attrs/types/0"), "RoCE v2\n"),
            ("/dev/infiniband/uverbs0", ""),
            ("sh -c ulimit -l", "8192\n"),
            ("/sbin/ldconfig -p", "\tlibibverbs.so.1 (libc6,x86-64) => /lib/libibverbs.so.1\n"),
        ])
    }

    fn states(checks: &[Check]) -> Vec<(&str, State)> {
        checks.iter().map(|check| (&check.name[..], check.state)).collect()
    }

    #[test]
    fn a_port_that_is_up_is_well_and_described() {
        let checks = checks(&machine("4: ACTIVE\n", "fe80:0000:0000:0000:5054:00ff:fe12:3456\n"));
        assert_eq!(
            states(&checks),
            [
                ("verbs library", State::Ok),
                ("verbs devices", State::Ok),
                ("locked memory", State::Problem),
                ("RDMA rxe0/1", State::Ok),
            ]
        );
        let wanted = "ACTIVE, Ethernet at 2.5 Gb/sec (1X SDR), CA, \
                      GID fe80:0000:0000:0000:5054:00ff:fe12:3456 (RoCE v2) of 1";
        assert_eq!(checks[3].found, wanted);
    }

    #[test]
    fn a_port_that_is_down_or_has_no_address_comes_with_a_remedy() {
        let zero = "0000:0000:0000:0000:0000:0000:0000:0000\n";
        for (state, expected) in [
            ("4: ACTIVE\n", State::Problem),
            ("2: INIT\n", State::Problem),
            ("1: DOWN\n", State::Warning),
        ] {
            let checks = checks(&machine(state, zero));
            let port = checks.last().unwrap();
            assert_eq!(port.state, expected, "{port}");
            assert!(port.found.contains("no GID"), "{port}");
        }
    }

    #[test]
    fn a_missing_library_is_a_problem_only_where_there_is_an_adapter() {
        assert_eq!(states(&checks(&Fixture::default())), [("RDMA", State::NotApplicable)]);
        let machine =
            machine("4: ACTIVE\n", "fe80::1\n").with("/sbin/ldconfig -p", Ok(String::new()));
        assert_eq!(checks(&machine)[0].state, State::Problem);
    }
}
