//! Proving the path between two nodes: both directions, every byte checked, latency and bandwidth.

use std::{
    io::{self, Read, Write},
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use pangea::NodeId;

use super::{
    check::{Check, State},
    pair_node::{Direction, Proof},
};
use crate::{
    args::NetworkPath,
    failure::{Failure, Result},
    hosts::{self, HostFile, Plan},
    job::{self, this_program},
    sink::Sink,
};

/// What the nodes are given: more than they need.
const ENVIRONMENT: [(&str, &str); 2] = [("PANGEA_HEAP", "64M"), ("PANGEA_TIMEOUT", "30")];
/// Seconds by which two clocks may differ: enough for logs to be read beside each other.
const CLOCK_TOLERANCE_S: f64 = 2.0;

/// Proves that two nodes on this host share memory.
pub(super) fn here() -> Vec<Check> {
    let name = "shared memory";
    let remedy = "nodes of one host need it: look at limits on memory and at the sandbox";
    match prove_here() {
        Ok(proof) => vec![path(name, &proof, remedy)],
        Err(words) => vec![Check::problem(name, words, remedy)],
    }
}

fn prove_here() -> std::result::Result<Proof, String> {
    let in_words = |failure: Failure| failure.to_string();
    let mut commands = Vec::new();
    for _ in 0..2 {
        let mut command = Command::new(this_program().map_err(in_words)?);
        command.args(["doctor", "--pair-node"]).envs(ENVIRONMENT).stdin(Stdio::null());
        // This is about shared memory, whatever else programs are to use.
        command.env("PANGEA_PATH", "shm").env_remove("PANGEA_REQUIRE");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        commands.push(command);
    }
    let mut job = job::start_by(Some(NetworkPath::Shm), commands).map_err(in_words)?;
    let streams: [Option<Box<dyn Read + Send>>; 3] = [
        job.take_stdout(NodeId::new(0)).map(|stream| Box::new(stream) as _),
        job.take_stderr(NodeId::new(0)).map(|stream| Box::new(stream) as _),
        job.take_stderr(NodeId::new(1)).map(|stream| Box::new(stream) as _),
    ];
    let readers = streams.map(|stream| {
        thread::spawn(move || {
            let mut text = String::new();
            // What was read before an error is what there is.
            _ = stream.map(|mut stream| stream.read_to_string(&mut text));
            text
        })
    });
    let failed = job.wait();
    let [json, words @ ..] = readers.map(|reader| reader.join().unwrap_or_default());
    match failed {
        Ok(None) => serde_json::from_str(&json).map_err(|error| error.to_string()),
        Ok(Some(_)) => Err(words.concat().trim().replace('\n', "; ")),
        Err(error) => Err(error.to_string()),
    }
}

/// Proves the path between this host and `host`: its speed, and that the clocks agree.
pub(super) fn pair(host: &str) -> Result<Vec<Check>> {
    let program = this_program()?;
    let name = format!("path to {host}");
    let remedy = format!(
        "run pangea doctor on {host} too; firewalls must let TCP through; then: ssh {host} {}",
        program.display()
    );
    Ok(match prove(host, program) {
        Ok(proof) => vec![path(&name, &proof, &remedy), clock(host, proof.clock_ahead_s)],
        Err(failure) => vec![Check::problem(name, failure.to_string(), remedy)],
    })
}

fn prove(host: &str, program: PathBuf) -> Result<Proof> {
    let file = HostFile::read(&format!("localhost,{host}"));
    let mut file = file.map_err(|error| Failure::usage(error.to_string()))?;
    file.envs.extend(ENVIRONMENT.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let plan = Plan {
        file,
        nodes_per_entry: 1,
        program: vec![program.into(), "doctor".into(), "--pair-node".into()],
        directory: "/".into(),
        pangea: None,
        coordinator: None,
    };
    let printed = Printed::default();
    let sinks =
        |node| Ok([Sink::Plain(Box::new(printed.clone())), Sink::prefixed(node, io::stderr())]);
    if let Some(ending) = hosts::launch(&plan, &Arc::default(), sinks)? {
        return Err(Failure::failed(format!("{} failed: {}", ending.node, ending.status)));
    }
    let json = printed.0.lock().unwrap_or_else(PoisonError::into_inner);
    serde_json::from_slice(&json).map_err(|error| Failure::runtime(&error))
}

/// What nodes have printed: node 0 alone prints.
#[derive(Clone, Debug, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn path(name: &str, proof: &Proof, remedy: &str) -> Check {
    let [there, back] = proof.directions;
    let wrong = there.wrong_words + back.wrong_words;
    let found = format!("{}: {}; back {}", proof.path, figures(there), figures(back));
    if wrong == 0.0 {
        return Check::ok(name, found);
    }
    let found = format!("{found}; {wrong} words were not what was written");
    Check { state: State::Problem, ..Check::warning(name, found, remedy) }
}

fn figures(direction: Direction) -> String {
    let time = |us: f64| Duration::from_secs_f64(us / 1e6);
    format!(
        "8 bytes in {:.1?} (p99 {:.1?}), reads {:.2} GB/s, writes {:.2} GB/s",
        time(direction.get_p50_us),
        time(direction.get_p99_us),
        direction.get_bytes_per_s / 1e9,
        direction.put_bytes_per_s / 1e9
    )
}

fn clock(host: &str, ahead_s: f64) -> Check {
    let name = format!("clock of {host}");
    let found =
        format!("{:.3} s {}", ahead_s.abs(), if ahead_s < 0.0 { "behind" } else { "ahead" });
    if ahead_s.abs() < CLOCK_TOLERANCE_S {
        return Check::ok(name, found);
    }
    Check::warning(name, found, "let both set their clocks by the network (NTP)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_word_is_a_problem_and_a_wrong_clock_a_warning() {
        let mut proof = Proof {
            path: "messages".to_owned(),
            directions: Default::default(),
            clock_ahead_s: 0.1,
        };
        assert_eq!(path("path", &proof, "…").state, State::Ok);
        proof.directions[1].wrong_words = 1.0;
        let check = path("path", &proof, "…");
        assert_eq!(check.state, State::Problem);
        assert!(check.found.contains("1 words were not"), "{check}");
        assert_eq!(clock("b", proof.clock_ahead_s).state, State::Ok);
        assert_eq!(clock("b", -70.0).found, "70.000 s behind");
        assert_eq!(clock("b", -70.0).state, State::Warning);
    }
}
