//! The identity of a Linux host.

use std::fs;

/// The boot, and the network namespace: containers have hosts' names and addresses of their own.
pub(super) fn identity() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let network = fs::read_link("/proc/self/ns/net").ok()?;
    Some(format!("{} {}", boot.trim(), network.display()))
}
