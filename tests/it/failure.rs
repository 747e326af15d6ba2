//! What happens to the others when a node fails.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    process::Stdio,
    time::{Duration, Instant},
};

use pangea::{NodeId, launch::Job};

use crate::job::{Outcome, node, run, succeeds};

/// Checks that the job of `scenario` ends in time by the failure of node 1, as `code` says, and
/// that the others say whom they lost.
fn fails(scenario: &str, code: u8) -> Outcome {
    let start = Instant::now();
    let outcome = run(3, || node(scenario));
    assert!(start.elapsed() < Duration::from_secs(20), "{outcome:?}");
    let failed = outcome.failed.expect("a node fails");
    assert_eq!((failed.node, failed.code()), (NodeId::new(1), code), "{outcome:?}");
    for node in [0, 2] {
        let text = &outcome.output[node];
        assert!(text.contains("was lost") && !text.contains("panicked"), "{outcome:?}");
    }
    outcome
}

#[test]
fn a_node_that_dies_in_a_barrier_is_named_by_the_others() {
    let outcome = fails("die_in_barrier", 128 + 6);
    assert_eq!(outcome.failed.unwrap().status.signal(), Some(libc::SIGABRT));
    assert!(outcome.output[0].contains("node 1 was lost"), "{outcome:?}");
}

#[test]
fn the_data_of_a_dead_node_is_an_error() {
    fails("die_with_data", 128 + 6);
}

#[test]
fn what_a_dead_node_has_not_published_is_not_waited_for() {
    fails("die_unpublished", 128 + 6);
}

#[test]
fn a_node_that_exits_ends_the_job_with_its_code() {
    let outcome = fails("exit_early", 3);
    assert!(outcome.output[1].contains("the last words of node 1"), "{outcome:?}");
}

#[test]
fn a_node_that_panics_ends_the_job() {
    let outcome = fails("panic", 101);
    assert!(outcome.output[1].contains("the last words of node 1"), "{outcome:?}");
}

#[test]
fn a_node_that_fails_ends_the_job() {
    fails("fail", 1);
}

#[test]
fn a_node_that_leaves_early_is_missed() {
    let outcome = run(3, || node("end_early"));
    let failed = outcome.failed.expect("the others fail");
    assert_ne!(failed.node, NodeId::new(1), "{outcome:?}");
}

#[test]
fn a_node_that_never_joins_keeps_nobody_waiting() {
    let outcome = run(3, || node("never_join"));
    assert_eq!(outcome.failed.expect("the others fail").code(), 1, "{outcome:?}");
}

#[test]
fn a_node_that_is_late_is_waited_for_again() {
    succeeds("stop", &[2, 3]);
}

#[test]
fn nothing_is_left_of_a_job_that_is_killed() {
    let commands = (0..2).map(|_| {
        let mut command = node("idle");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    });
    let mut job = Job::start(commands).unwrap();
    let processes: Vec<u32> = (0..2).map(|node| job.process(NodeId::new(node)).unwrap()).collect();
    let mut stdout = job.take_stdout(NodeId::new(1)).unwrap();
    std::io::Read::read_exact(&mut stdout, &mut [0; 6]).unwrap();
    drop(job);
    for process in processes {
        assert!(!fs::exists(format!("/proc/{process}")).unwrap(), "a process is left");
    }
}
