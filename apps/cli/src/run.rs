//! `pangea run`: any program as the nodes of a cluster.

use std::{
    fs,
    io::{self, ErrorKind},
    process::{Command, Stdio},
};

use pangea::{NodeId, launch::Job};

use crate::{
    args::Run,
    failure::{Failure, Result},
    hosts,
    job::{self, report},
    sink::{Copy, Sink, cannot_write, copy},
};

/// Nodes of a job where it is not said how many.
const NODES: u16 = 2;
/// Bytes that are copied at once.
const PART: usize = 64 << 10;

pub(crate) fn run(args: &Run) -> Result {
    if let Some(folder) = &args.output {
        fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    }
    if args.hosts.is_some() {
        return hosts::run(args);
    }
    let nodes = args.nodes.unwrap_or(NODES);
    let mut commands = Vec::new();
    for node in NodeId::all(nodes) {
        commands.push(command(args, node)?);
    }
    let mut job = job::start_by(args.network.path, commands)?;
    let mut copies = Vec::new();
    if args.output.is_none() && !args.raw {
        for node in NodeId::all(nodes) {
            copies.extend(prefix_output(&mut job, node)?);
        }
    }
    let failed = job.wait();
    let copied = copies.into_iter().try_for_each(|copy| copy.join().unwrap_or(Ok(())));
    let code = report(failed?);
    check_copied(copied)?;
    Ok(code)
}

/// Tells what could not be written. Who reads has read enough: no failure.
pub(crate) fn check_copied(copied: io::Result<()>) -> Result<()> {
    match copied {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::runtime(&pangea_llm::Error::Output(error)))
        }
        _ => Ok(()),
    }
}

/// The command that starts `node`: the first has the terminal's input.
fn command(args: &Run, node: NodeId) -> Result<Command> {
    let mut command = Command::new(&args.program[0]);
    command.args(&args.program[1..]).envs(args.network.environment());
    if node.number() != 0 {
        command.stdin(Stdio::null());
    }
    if let Some(folder) = &args.output {
        command.stdout(Sink::file(folder, node, "out")?).stderr(Sink::file(folder, node, "err")?);
    } else if !args.raw {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    Ok(command)
}

/// Copies what a node writes, with its number before each line.
fn prefix_output(job: &mut Job, node: NodeId) -> Result<Vec<Copy>> {
    let mut copies = Vec::new();
    if let Some(source) = job.take_stdout(node) {
        let mut sink = Sink::prefixed(node, io::stdout());
        copies.push(copy(source, PART, move |bytes| sink.write(bytes))?);
    }
    if let Some(source) = job.take_stderr(node) {
        let mut sink = Sink::prefixed(node, io::stderr());
        copies.push(copy(source, PART, move |bytes| sink.write(bytes))?);
    }
    Ok(copies)
}
