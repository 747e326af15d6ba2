//! What matters on a Mac: its version, RDMA over Thunderbolt, sleep, what was left behind.
//!
//! Everything is asked of commands, so that all of it runs, and is tested, on any system.

mod network;
mod ports;
mod rdma;
mod thunderbolt;

use super::{
    check::{Check, State},
    machine::Machine,
};

/// The first version with RDMA over Thunderbolt.
const VERSION_WITH_RDMA: (u32, u32) = (26, 2);
/// What the driver keeps of a program that uses RDMA; about eleven are all that a port has.
const PROTECTION_DOMAIN: &str = "AppleThunderboltRDMAProtectionDomain";

/// Looks into all of them.
pub(super) fn checks(machine: &dyn Machine) -> Vec<Check> {
    let ports = machine.run(&["system_profiler", "SPThunderboltDataType", "-json"]);
    let ports = ports.map_err(|trouble| trouble.found("system_profiler"));
    let ports = ports.and_then(|json| thunderbolt::parse(&json));
    // RDMA that is not there is a problem only to who has the cable for it.
    let wants_rdma = ports.iter().flatten().any(thunderbolt::Port::can_rdma);
    let severity = if wants_rdma { State::Problem } else { State::Warning };
    let mut checks = vec![
        version(machine, severity),
        rdma::enabled(machine, severity),
        sleep(machine),
        stale(machine),
        firewall(machine),
    ];
    checks.extend(match ports {
        Ok(ports) => ports::checks(machine, &ports),
        Err(found) => {
            let remedy = "run it by hand: system_profiler SPThunderboltDataType";
            vec![Check::warning("Thunderbolt", found, remedy)]
        }
    });
    checks
}

fn version(machine: &dyn Machine, severity: State) -> Check {
    let name = "macOS";
    let answer = machine.run(&["sw_vers", "-productVersion"]).unwrap_or_default();
    let mut numbers = answer.trim().split('.').map(str::parse::<u32>);
    let version = (numbers.next(), numbers.next());
    let (Some(Ok(major)), minor) = version else {
        return Check::warning(name, "the version is not known", "run sw_vers");
    };
    let minor = minor.and_then(Result::ok).unwrap_or(0);
    if (major, minor) >= VERSION_WITH_RDMA {
        return Check::ok(name, answer.trim());
    }
    let found = format!("{} has no RDMA over Thunderbolt", answer.trim());
    let remedy = "update to macOS 26.2 or later, the same on all Macs";
    Check { state: severity, ..Check::warning(name, found, remedy) }
}

fn sleep(machine: &dyn Machine) -> Check {
    let name = "sleep";
    let Ok(settings) = machine.run(&["pmset", "-g"]) else {
        return Check::not_applicable(name, "the settings are not known");
    };
    let value = |wanted: &str| {
        let mut lines = settings.lines().map(str::split_whitespace);
        lines.find_map(|mut words| (words.next()? == wanted).then(|| words.next()).flatten())
    };
    match (value("SleepDisabled"), value("sleep")) {
        (Some("1"), _) | (_, Some("0")) => Check::ok(name, "never"),
        (_, None) => Check::not_applicable(name, "the settings are not known"),
        (_, Some(minutes)) => Check::warning(
            name,
            format!("after {minutes} min: a Mac that sleeps is lost to the others"),
            "sudo pmset -a sleep 0, or run programs by: caffeinate -i pangea run …",
        ),
    }
}

/// What programs that were killed have left in the driver: only a restart frees it.
fn stale(machine: &dyn Machine) -> Check {
    let name = "RDMA resources";
    let answer = machine.run(&["ioclasscount", PROTECTION_DOMAIN]).unwrap_or_default();
    let count = answer.trim().rsplit_once('=').and_then(|(_, count)| count.trim().parse().ok());
    match count {
        None => Check::not_applicable(name, "the driver is not loaded"),
        Some(0_u32) => Check::ok(name, "none in use"),
        Some(count) => Check::warning(
            name,
            format!("{count} protection domains in use; a port has about 11"),
            "if no program uses RDMA now, killed ones have left them: restart this Mac",
        ),
    }
}

fn firewall(machine: &dyn Machine) -> Check {
    let name = "firewall";
    let command = "/usr/libexec/ApplicationFirewall/socketfilterfw";
    let state = machine.run(&[command, "--getglobalstate"]).unwrap_or_default();
    if state.contains("enabled") {
        let remedy = format!("let pangea in: sudo {command} --add PROGRAM --unblockapp PROGRAM");
        return Check::warning(name, "on: it may keep nodes of other hosts out", remedy);
    }
    Check::ok(name, if state.contains("disabled") { "off" } else { "not known" })
}

#[cfg(test)]
mod tests;
