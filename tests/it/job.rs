//! Running a scenario as a job.

use std::{
    io::Read,
    process::{Command, Stdio},
    thread,
};

use pangea::{
    NodeId,
    launch::{Ending, Job},
};

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

/// Runs `command` on each of `nodes` nodes.
pub(crate) fn run(nodes: u16, command: impl Fn() -> Command) -> Outcome {
    let commands = (0..nodes).map(|_| {
        let mut command = command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    });
    let mut job = Job::start(commands).unwrap();
    let readers: Vec<_> = (0..nodes).map(|node| collect(&mut job, NodeId::new(node))).collect();
    let failed = job.wait().unwrap();
    let output = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    Outcome { failed, output }
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

/// Checks that `scenario` succeeds on each of these numbers of nodes.
pub(crate) fn succeeds(scenario: &str, nodes: &[u16]) {
    for &nodes in nodes {
        let outcome = run(nodes, || node(scenario));
        assert!(outcome.failed.is_none(), "{nodes} nodes: {outcome:?}");
    }
}
