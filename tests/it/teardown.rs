//! What is left of a node's devices after its end.

use std::{io::Read, os::unix::process::ExitStatusExt, process::Stdio};

use pangea::{NodeId, launch::is_ignored};
use pangea_fake_thunderbolt::InUse;
use pangea_tests::{Path, Started};

use crate::job::node;

/// The node that ends.
const ENDING: NodeId = NodeId::new(1);
/// Its ports.
const PORTS: [&str; 2] = ["1.en2", "1.en3"];

/// How a node ended.
#[derive(Debug)]
struct End {
    code: Option<i32>,
    signal: Option<i32>,
    left: [InUse; 2],
}

/// Runs two nodes, of which one does `scenario` and is sent `signal` when it is ready.
fn end(scenario: &str, signal: Option<i32>) -> End {
    let commands = (0..2).map(|_| {
        let mut command = node(scenario);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    });
    let Started { mut job, cables } = Path::Striped.start(commands).unwrap();
    let cables = cables.expect("there are cables");
    if let Some(signal) = signal {
        job.take_stdout(ENDING).expect("piped").read_exact(&mut [0; 6]).unwrap();
        // Nothing is left either of the pairs of ports that were tried in vain.
        let held = PORTS.map(|port| cables.in_use(port).unwrap());
        assert!(held.iter().all(|held| held.queue_pairs == 1 && held.domains == 1), "{held:?}");
        let process = job.process(ENDING).expect("it runs");
        // SAFETY: a signal to a child that was not waited for.
        assert_eq!(unsafe { libc::kill(process.cast_signed(), signal) }, 0);
    }
    let failed = job.wait().unwrap().expect("a node ends");
    assert_eq!(failed.node, ENDING);
    let left = PORTS.map(|port| cables.in_use(port).unwrap());
    End { code: failed.status.code(), signal: failed.status.signal(), left }
}

#[test]
fn a_signal_that_ends_a_node_leaves_nothing_behind_and_is_how_it_ended() {
    // A process that was told to ignore one, as by nohup, goes on doing so, and so do its children.
    let signals = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
    for signal in signals.into_iter().filter(|&signal| !is_ignored(signal)) {
        let end = end("idle", Some(signal));
        assert_eq!((end.signal, end.left), (Some(signal), Default::default()), "{end:?}");
    }
}

#[test]
fn a_node_that_exits_or_panics_leaves_nothing_behind() {
    for (scenario, code) in [("exit_early", 3), ("panic", 101)] {
        let end = end(scenario, None);
        assert_eq!((end.code, end.left), (Some(code), Default::default()), "{end:?}");
    }
}

#[test]
fn a_node_that_is_killed_leaves_all_behind() {
    let end = end("idle", Some(libc::SIGKILL));
    assert_eq!(end.signal, Some(libc::SIGKILL));
    assert!(end.left.iter().all(|left| left.queue_pairs == 1 && left.regions > 0), "{end:?}");
}
