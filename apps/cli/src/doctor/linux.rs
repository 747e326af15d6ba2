//! What matters on Linux: limits on memory, page faults, large pages, the firewall, verbs.

mod verbs;

use super::{check::Check, machine::Machine};

/// What the kernel gives every process where nobody has set it.
const MAP_COUNT: u64 = 65530;

/// Looks into all of them.
pub(super) fn checks(machine: &dyn Machine) -> Vec<Check> {
    let mut checks = vec![
        map_count(machine),
        overcommit(machine),
        large_pages(machine),
        page_faults(machine),
        firewall(machine),
    ];
    checks.extend(verbs::checks(machine));
    checks
}

fn number(machine: &dyn Machine, path: &str) -> Option<u64> {
    machine.read(path)?.trim().parse().ok()
}

fn map_count(machine: &dyn Machine) -> Check {
    let name = "memory mappings";
    match number(machine, "/proc/sys/vm/max_map_count") {
        Some(count) if count < MAP_COUNT => Check::warning(
            name,
            format!("at most {count} for a process"),
            format!("sudo sysctl vm.max_map_count={MAP_COUNT}"),
        ),
        Some(count) => Check::ok(name, format!("at most {count} for a process")),
        None => Check::not_applicable(name, "the limit is not known"),
    }
}

fn overcommit(machine: &dyn Machine) -> Check {
    let name = "overcommit";
    match number(machine, "/proc/sys/vm/overcommit_memory") {
        Some(2) => Check::warning(
            name,
            "forbidden: memory counts when it is asked for, not when it is used",
            "set PANGEA_HEAP to what a node needs, or: sudo sysctl vm.overcommit_memory=0",
        ),
        Some(mode) => Check::ok(name, format!("allowed (mode {mode})")),
        None => Check::not_applicable(name, "not known"),
    }
}

/// Heaps are shared memory; weights ask for large pages of it.
fn large_pages(machine: &dyn Machine) -> Check {
    let name = "large pages";
    let path = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let Some(text) = machine.read(path) else {
        return Check::warning(
            name,
            "this kernel has none for shared memory",
            "nothing is wrong; memory streams somewhat slower",
        );
    };
    match chosen(&text) {
        "deny" => Check::warning(
            name,
            "denied to shared memory",
            format!("memory streams faster with them: echo advise | sudo tee {path}"),
        ),
        mode => Check::ok(name, format!("for shared memory: {mode}, and those that are asked for")),
    }
}

/// The word in brackets, as in `always [never] deny`.
fn chosen(text: &str) -> &str {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text.trim(), |(word, _)| word)
}

/// Whether page faults can be handled by a thread, rather than by signals.
fn page_faults(machine: &dyn Machine) -> Check {
    let name = "userfaultfd";
    let setting = "/proc/sys/vm/unprivileged_userfaultfd";
    let has_device = machine.list("/dev").iter().any(|device| device == "userfaultfd");
    match number(machine, setting) {
        None => Check::not_applicable(name, "this kernel has none; signals serve instead"),
        Some(1) => Check::ok(name, "allowed to everybody"),
        Some(_) if has_device => {
            Check::ok(name, "for faults of programs, and through /dev/userfaultfd")
        }
        // Enough, as the kernel is not handed addresses that are not there.
        Some(_) => Check::ok(name, "for faults of programs, not of the kernel"),
    }
}

fn firewall(machine: &dyn Machine) -> Check {
    let name = "firewall";
    let remedy = "if nodes of other hosts cannot connect: allow them TCP to this host";
    let ufw = machine.read("/etc/ufw/ufw.conf").unwrap_or_default();
    if ufw.lines().any(|line| line.trim().eq_ignore_ascii_case("enabled=yes")) {
        return Check::warning(name, "ufw is on", format!("{remedy} (sudo ufw allow from …)"));
    }
    if machine.list("/run/firewalld").is_empty() {
        return Check::ok(name, "neither ufw nor firewalld is on");
    }
    Check::warning(name, "firewalld is on", format!("{remedy} (firewall-cmd --add-source=…)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{check::State, machine::fixture::Fixture};

    #[test]
    fn limits_that_are_too_low_come_with_the_command_that_raises_them() {
        let path = "/proc/sys/vm/max_map_count";
        assert_eq!(map_count(&Fixture::new(&[(path, "65530\n")])).state, State::Ok);
        let low = map_count(&Fixture::new(&[(path, "1000\n")]));
        assert!(low.remedy.unwrap().contains("sysctl vm.max_map_count"));
        let path = "/proc/sys/vm/overcommit_memory";
        assert_eq!(overcommit(&Fixture::new(&[(path, "0\n")])).state, State::Ok);
        assert_eq!(overcommit(&Fixture::new(&[(path, "2\n")])).state, State::Warning);
    }

    #[test]
    fn the_word_in_brackets_is_the_one_that_holds() {
        let path = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
        let check = |text| large_pages(&Fixture::new(&[(path, text)]));
        let never = check("always within_size advise [never] deny force\n");
        assert_eq!(never.state, State::Ok);
        assert!(never.found.contains("never"), "{never}");
        assert_eq!(check("always within_size advise never [deny] force\n").state, State::Warning);
        assert_eq!(large_pages(&Fixture::default()).state, State::Warning);
    }

    #[test]
    fn faults_are_handled_wherever_the_kernel_lets_us() {
        let path = "/proc/sys/vm/unprivileged_userfaultfd";
        assert!(page_faults(&Fixture::new(&[(path, "1\n")])).found.contains("everybody"));
        let device = Fixture::new(&[(path, "0\n"), ("/dev/userfaultfd", "")]);
        assert!(page_faults(&device).found.contains("/dev/userfaultfd"));
        assert_eq!(page_faults(&Fixture::default()).state, State::NotApplicable);
    }

    #[test]
    fn a_firewall_that_is_on_is_a_warning() {
        assert_eq!(firewall(&Fixture::default()).state, State::Ok);
        let ufw = Fixture::new(&[("/etc/ufw/ufw.conf", "LOGLEVEL=low\nENABLED=yes\n")]);
        assert_eq!(firewall(&ufw).state, State::Warning);
        let firewalld = Fixture::new(&[("/run/firewalld/locks", "")]);
        assert_eq!(firewall(&firewalld).state, State::Warning);
    }
}
