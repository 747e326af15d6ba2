//! `pangea run`: any program as the nodes of a cluster.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
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
            copies.extend(prefix_output(&mut job, node)?);
        }
    }
    let failed = job.wait();
    let copied = copies.into_iter().try_for_each(|copy| copy.join().unwrap_or(Ok(())));
    let code = report(failed?);
    // Who reads has read enough: no failure.
    match copied {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::runtime(&pangea_llm::Error::Output(error)))
        }
        _ => Ok(code),
    }
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

/// A thread that copies, and tells what it could not write.
type Copy = JoinHandle<io::Result<()>>;

/// Copies what a node writes, with its number before each line.
fn prefix_output(job: &mut Job, node: NodeId) -> Result<Vec<Copy>> {
    let (stdout, stderr) = (job.take_stdout(node), job.take_stderr(node));
    let mut copies = Vec::new();
    if let Some(source) = stdout {
        copies.push(copy(node, source, io::stdout())?);
    }
    if let Some(source) = stderr {
        copies.push(copy(node, source, io::stderr())?);
    }
    Ok(copies)
}

fn copy(
    node: NodeId,
    source: impl Read + Send + 'static,
    target: impl Write + Send + 'static,
) -> Result<Copy> {
    let thread = thread::Builder::new().spawn(move || copy_lines(node, source, target));
    thread.map_err(|error| Failure::usage(format!("cannot start a thread: {error}")))
}

/// A line at a time, so that those of several nodes do not mix. What cannot be written is read all
/// the same: the node is not to wait.
fn copy_lines(node: NodeId, source: impl Read, mut target: impl Write) -> io::Result<()> {
    let mut source = BufReader::new(source);
    let mut written = Ok(());
    loop {
        let mut line = format!("[{}] ", node.number()).into_bytes();
        if source.read_until(b'\n', &mut line)? == 0 {
            return written;
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        if written.is_ok() {
            written = target.write_all(&line).and_then(|()| target.flush());
        }
    }
}
