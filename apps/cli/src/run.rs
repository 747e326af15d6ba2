//! `pangea run`: any program as the nodes of a cluster.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Write},
    path::Path,
    process::{Command, Stdio},
    thread::{self, JoinHandle},
};

use pangea::{NodeId, launch::Job};

use crate::{
    args::Run,
    failure::{Failure, Result},
    job::{self, report},
};

pub(crate) fn run(args: Run) -> Result {
    if let Some(folder) = &args.output {
        fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    }
    let mut commands = Vec::new();
    for node in NodeId::all(args.nodes) {
        commands.push(command(&args, node)?);
    }
    let mut job = job::start(commands)?;
    let mut copies = Vec::new();
    if args.output.is_none() && !args.raw {
        for node in NodeId::all(args.nodes) {
            copies.extend(prefix_output(&mut job, node));
        }
    }
    let failed = job.wait();
    for copy in copies {
        // A copy that panicked has said so.
        _ = copy.join();
    }
    Ok(report(failed?))
}

/// The command that starts `node`: the first has the terminal's input.
fn command(args: &Run, node: NodeId) -> Result<Command> {
    let mut command = Command::new(&args.program[0]);
    command.args(&args.program[1..]);
    if node.number() != 0 {
        command.stdin(Stdio::null());
    }
    if let Some(folder) = &args.output {
        let create = |end: &str| {
            let path = folder.join(format!("node-{}.{end}", node.number()));
            File::create(&path).map_err(|error| cannot_write(&path, &error))
        };
        command.stdout(create("out")?).stderr(create("err")?);
    } else if !args.raw {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    Ok(command)
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot write to {}: {error}", path.display()))
}

/// Copies what a node writes, with its number before each line.
fn prefix_output(job: &mut Job, node: NodeId) -> Vec<JoinHandle<()>> {
    let (stdout, stderr) = (job.take_stdout(node), job.take_stderr(node));
    let copy = |source: Box<dyn Read + Send>, write: fn(&[u8])| {
        thread::spawn(move || copy_lines(source, node, write))
    };
    let stdout = stdout.map(|source| copy(Box::new(source), |line| emit(&mut io::stdout(), line)));
    let stderr = stderr.map(|source| copy(Box::new(source), |line| emit(&mut io::stderr(), line)));
    stdout.into_iter().chain(stderr).collect()
}

/// A line at a time, so that those of several nodes do not mix.
fn copy_lines(source: impl Read, node: NodeId, write: fn(&[u8])) {
    let mut source = BufReader::new(source);
    loop {
        let mut line = format!("[{}] ", node.number()).into_bytes();
        match source.read_until(b'\n', &mut line) {
            Ok(1..) => {}
            // The end; what cannot be read has no more to say.
            Ok(0) | Err(_) => return,
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        write(&line);
    }
}

fn emit(target: &mut impl Write, line: &[u8]) {
    // Where nobody reads any more, there is nobody to tell.
    _ = target.write_all(line).and_then(|()| target.flush());
}
