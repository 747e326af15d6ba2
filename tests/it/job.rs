//! Running a scenario as a job.

use std::{
    io::Read,
    process::{Command, Stdio},
    thread,
};

use pangea::{
    Error, NodeId,
    launch::{Ending, Job},
};
use pangea_tests::{Path, Started};

/// How a job went.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// How the first node failed, if one did.
    pub(crate) failed: Option<Ending>,
    /// What the nodes wrote, by node.
    pub(crate) output: Vec<String>,
}

/// A command that does `scenario`.
pub(crate) fn node(scenario: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_test-node"));
    command.arg(scenario).env("PANGEA_HEAP", "64M").env("PANGEA_TIMEOUT", "60");
    command
}

/// Runs `command` on each of `nodes` nodes, which reach each other by `path`.
pub(crate) fn run(path: Path, nodes: u16, command: impl Fn() -> Command) -> Outcome {
    let outcome = run_each(path, (0..nodes).map(|_| command()).collect());
    outcome.unwrap_or_else(|(error, output)| panic!("{path:?}: {error}: {output:?}"))
}

/// Runs a node for each of `commands`, which reach each other by `path`; where they did not meet,
/// why, and what they wrote.
pub(crate) fn run_each(
    path: Path,
    commands: Vec<Command>,
) -> Result<Outcome, (Error, Vec<String>)> {
    let nodes = u16::try_from(commands.len()).unwrap();
    let commands = commands.into_iter().map(|mut command| {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    });
    let Started { mut job, cables } = path.start(commands).unwrap();
    let readers: Vec<_> = (0..nodes).map(|node| collect(&mut job, NodeId::new(node))).collect();
    let failed = job.wait();
    drop(cables);
    let output: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    match failed {
        Ok(failed) => Ok(Outcome { failed, output }),
        Err(error) => Err((error, output)),
    }
}

/// Collects what a node writes, to both of its streams.
fn collect(job: &mut Job, node: NodeId) -> thread::JoinHandle<String> {
    let streams: [Box<dyn Read + Send>; 2] = [
        Box::new(job.take_stdout(node).expect("piped")),
        Box::new(job.take_stderr(node).expect("piped")),
    ];
    thread::spawn(move || {
        let readers = streams.map(|mut stream| {
            thread::spawn(move || {
                let mut text = String::new();
                stream.read_to_string(&mut text).unwrap();
                text
            })
        });
        readers.map(|reader| reader.join().unwrap()).concat()
    })
}

/// Checks that `scenario` succeeds by `path` on each of these numbers of nodes.
pub(crate) fn succeeds(scenario: &str, path: Path, nodes: &[u16]) {
    for &nodes in nodes {
        let outcome = run(path, nodes, || node(scenario));
        assert!(outcome.failed.is_none(), "{path:?}, {nodes} nodes: {outcome:?}");
    }
}
