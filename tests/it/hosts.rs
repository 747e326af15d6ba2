//! Jobs on two hosts of two nodes each, which are network namespaces: shared memory inside, TCP
//! between.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::Output,
    time::{Duration, Instant},
};

use pangea_tests::{Family, Networks};

/// What is built beside the node of tests.
fn built(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_test-node")).with_file_name(name)
}

/// Two hosts, or, said to who runs the tests, why there are none.
fn two_hosts(family: Family) -> Option<Networks> {
    match Networks::new(family) {
        Ok(networks) => Some(networks),
        Err(why) => {
            // Not by a macro, whose output the harness keeps from who reads.
            let mut stderr = io::stderr();
            writeln!(stderr, "not tested: jobs of several hosts; {why}").unwrap();
            None
        }
    }
}

/// How `scenario` goes with `nodes` nodes on each host.
fn run(networks: &Networks, nodes: u16, options: &[&str], scenario: &str) -> Output {
    let node = built("test-node");
    let mut command = networks.run(&built("pangea"), nodes, options);
    command.arg("--").arg(node).arg(scenario);
    command.env("PANGEA_HEAP", "64M").env("PANGEA_TIMEOUT", "60");
    command.output().unwrap()
}

/// What the nodes print of a `scenario` in which all goes well.
fn succeeds(networks: &Networks, options: &[&str], scenario: &str) -> String {
    let output = run(networks, 2, options, scenario);
    assert!(output.status.success(), "{scenario}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Checks how the nodes of two hosts reach each other: those of one by shared memory, the others
/// `by` something.
fn reaches(ways: &str, by: &str) {
    let mut lines: Vec<_> = ways.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 4 * 3, "{ways}");
    for (node, lines) in lines.chunks(3).enumerate() {
        let near = format!("to node {}:", node ^ 1);
        for line in lines {
            let expected = if line.contains(&near) { "shared memory" } else { by };
            assert!(line.contains(expected), "{line}");
        }
    }
}

#[test]
fn two_hosts_are_one_memory() {
    let Some(networks) = two_hosts(Family::V4) else { return };
    reaches(&succeeds(&networks, &[], "ways"), "TCP, encrypted");
    for scenario in ["atomics", "barriers", "bulk", "frozen", "names", "spread"] {
        succeeds(&networks, &[], scenario);
    }
}

#[test]
fn hosts_may_know_each_other_by_ipv6_alone() {
    let Some(networks) = two_hosts(Family::V6) else { return };
    reaches(&succeeds(&networks, &[], "ways"), "[fd77::");
    succeeds(&networks, &[], "bulk");
}

#[test]
fn a_trusted_network_sees_what_is_sent() {
    let Some(networks) = two_hosts(Family::V4) else { return };
    let ways = succeeds(&networks, &["--trusted-network"], "ways");
    reaches(&ways, "in the clear");
    succeeds(&networks, &["--trusted-network"], "bulk");
}

#[test]
fn an_address_that_is_silent_delays_none_that_answers() {
    let Some(networks) = two_hosts(Family::V4) else { return };
    networks.hide(true).unwrap();
    let ways = succeeds(&networks, &["--coordinator", "10.77.0.1"], "ways");
    reaches(&ways, "TCP");
}

#[test]
fn a_node_behind_a_firewall_is_named_to_all() {
    let Some(networks) = two_hosts(Family::V4) else { return };
    networks.hide(false).unwrap();
    let start = Instant::now();
    let output = run(&networks, 1, &["--coordinator", "10.77.0.1"], "ways");
    assert!(!output.status.success(), "{output:?}");
    // The whole of joining may take 30 seconds, an address to answer 5.
    assert!(start.elapsed() < Duration::from_secs(25), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    for node in 0..2 {
        let mut lines = text.lines().filter(|line| line.starts_with(&format!("[{node}]")));
        let says = |line: &str| {
            ["cannot reach node 0", "10.77.0.3:", "no answer within 5s", "firewall"]
                .iter()
                .all(|part| line.contains(part))
        };
        assert!(lines.any(says), "node {node}: {output:?}");
    }
}
