//! What happens to the others when a node fails.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    process::Stdio,
    time::{Duration, Instant},
};

use pangea::NodeId;
use pangea_tests::{Path, Started};

use crate::job::{Outcome, node, run, succeeds};

/// Checks that the job of `scenario` ends in time by the failure of node 1, as `code` says, and
/// that the others say whom they lost, whichever way they reach each other.
fn fails(scenario: &str, code: u8) {
    Path::ALL.into_iter().for_each(|path| _ = fails_by(path, scenario, code));
}

fn fails_by(path: Path, scenario: &str, code: u8) -> Outcome {
    let start = Instant::now();
    let outcome = run(path, 3, || node(scenario));
    assert!(start.elapsed() < Duration::from_secs(20), "{path:?}: {outcome:?}");
    let failed = outcome.failed.expect("a node fails");
    assert_eq!((failed.node, failed.code()), (NodeId::new(1), code), "{path:?}: {outcome:?}");
    for node in [0, 2] {
        let text = &outcome.output[node];
        assert!(text.contains("was lost") && !text.contains("panicked"), "{path:?}: {outcome:?}");
    }
    outcome
}

#[test]
fn a_node_that_dies_in_a_barrier_is_named_by_the_others() {
    for path in Path::ALL {
        let outcome = fails_by(path, "die_in_barrier", 128 + 6);
        assert_eq!(outcome.failed.unwrap().status.signal(), Some(libc::SIGABRT));
        for node in [0, 2] {
            let text = &outcome.output[node];
            assert!(text.contains("node 1 was lost"), "{path:?}: {outcome:?}");
        }
    }
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
    for path in Path::ALL {
        let outcome = fails_by(path, "exit_early", 3);
        assert!(outcome.output[1].contains("the last words of node 1"), "{outcome:?}");
    }
}

#[test]
fn a_node_that_panics_ends_the_job() {
    for path in Path::ALL {
        let outcome = fails_by(path, "panic", 101);
        assert!(outcome.output[1].contains("the last words of node 1"), "{outcome:?}");
    }
}

#[test]
fn a_node_that_fails_ends_the_job() {
    fails("fail", 1);
}

#[test]
fn a_node_that_leaves_early_is_missed() {
    for path in Path::ALL {
        let outcome = run(path, 3, || node("end_early"));
        let failed = outcome.failed.expect("the others fail");
        assert_ne!(failed.node, NodeId::new(1), "{path:?}: {outcome:?}");
    }
}

#[test]
fn a_node_that_never_joins_keeps_nobody_waiting() {
    for path in Path::ALL {
        let outcome = run(path, 3, || node("never_join"));
        let failed = outcome.failed.expect("the others fail");
        assert_eq!(failed.code(), 1, "{path:?}: {outcome:?}");
    }
}

#[test]
fn a_node_that_is_late_is_waited_for_again() {
    succeeds("stop", Path::Shm, &[2, 3]);
    Path::WIRES.into_iter().for_each(|path| succeeds("stop", path, &[3]));
}

#[test]
fn nothing_is_left_of_a_job_that_is_killed() {
    for path in Path::ALL {
        let commands = (0..2).map(|_| {
            let mut command = node("idle");
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            command
        });
        let Started { mut job, cables: _cables } = path.start(commands).unwrap();
        let processes = [0, 1].map(|node| job.process(NodeId::new(node)).unwrap());
        let mut stdout = job.take_stdout(NodeId::new(1)).unwrap();
        std::io::Read::read_exact(&mut stdout, &mut [0; 6]).unwrap();
        drop(job);
        for process in processes {
            assert!(!fs::exists(format!("/proc/{process}")).unwrap(), "a process is left");
        }
    }
}
