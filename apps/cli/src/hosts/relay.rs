//! `pangea run-host`: a host's part of a job, as the launcher asks for it over ssh.
//!
//! Decides nothing: it starts nodes, passes signals on, and reports. Only when the launcher is gone
//! does it end them by itself.

use std::{
    env,
    io::{self, BufRead, Write},
    process::{Command, ExitCode, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Sender},
    },
    thread,
};

use pangea::{
    NodeId,
    launch::{Children, Event, Processes, TERM_GRACE},
};
use signal_hook::consts::{SIGKILL, SIGTERM};

use super::message::{GREETING, HostJob, OUTPUT_LEN_MAX, Report, Stream, read_line};
use crate::{
    failure::{Failure, Result, chain},
    sink::{Copy, copy},
};

/// Writes reports, one at a time.
#[derive(Clone, Debug)]
struct Reporter(Arc<Mutex<io::Stdout>>);

impl Reporter {
    fn send(&self, report: &Report) -> io::Result<()> {
        report.write(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Does what the launcher at the other end of the standard streams says.
pub(crate) fn run() -> Result {
    let reporter = Reporter(Arc::new(Mutex::new(io::stdout())));
    let mut stdout = io::stdout();
    let greeted = writeln!(stdout, "{GREETING}").and_then(|()| stdout.flush());
    greeted.map_err(|error| Failure::usage(format!("cannot greet the launcher: {error}")))?;
    let (events, received) = mpsc::channel();
    let started = start(&events, &reporter);
    let Started { children, copies, mut running } = match started {
        Ok(started) => started,
        Err(reason) => {
            // A launcher that is gone need not know.
            _ = reporter.send(&Report::Failed(reason));
            return Ok(ExitCode::FAILURE);
        }
    };
    thread::spawn(move || obey(&events));
    while running > 0 {
        match received.recv() {
            Ok(Event::Signal(signal)) => children.signal(signal),
            Ok(Event::Ended(ending)) => {
                running -= 1;
                // A launcher that is gone is noticed by the end of its orders.
                _ = reporter.send(&Report::Ended(ending));
            }
            Err(_) => break,
        }
    }
    for copy in copies {
        // What could not be reported is the launcher's loss.
        _ = copy.join();
    }
    Ok(ExitCode::SUCCESS)
}

/// Nodes that were started, and what copies their output.
struct Started {
    children: Children,
    copies: Vec<Copy>,
    running: usize,
}

/// Starts the nodes that the first line of orders describes.
fn start(events: &Sender<Event>, reporter: &Reporter) -> std::result::Result<Started, String> {
    let mut line = String::new();
    // Not through `read_line`: a job may be long, and who sends it is trusted.
    io::stdin().lock().read_line(&mut line).map_err(|error| format!("no job: {error}"))?;
    let job: HostJob =
        serde_json::from_str(&line).map_err(|error| format!("no job that can be read: {error}"))?;
    env::set_current_dir(&job.directory).map_err(|error| {
        let directory = job.directory.display();
        format!("cannot start in {directory}: {error}; --remote-dir names another folder")
    })?;
    let Some((program, arguments)) = job.program.split_first() else {
        return Err("a job without a program".to_owned());
    };
    let running = job.nodes.len();
    let (mut children, mut copies) = (Children::default(), Vec::new());
    for (node, environment) in job.nodes {
        let node = NodeId::new(node);
        let mut command = Command::new(program);
        command.args(arguments).envs(environment);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = children.start(node, command, events.clone());
        started.map_err(|error| chain(&error))?;
        let (stdout, stderr) = (children.take_stdout(node), children.take_stderr(node));
        let forwarded = [
            stdout.map(|source| copy(source, OUTPUT_LEN_MAX, forward(reporter, node, Stream::Out))),
            stderr.map(|source| copy(source, OUTPUT_LEN_MAX, forward(reporter, node, Stream::Err))),
        ];
        for copy in forwarded.into_iter().flatten() {
            copies.push(copy.map_err(|_| "cannot start a thread".to_owned())?);
        }
    }
    Ok(Started { children, copies, running })
}

/// Reports what a node prints.
fn forward(
    reporter: &Reporter,
    node: NodeId,
    stream: Stream,
) -> impl FnMut(&[u8]) -> io::Result<()> + Send + 'static {
    let reporter = reporter.clone();
    move |bytes| reporter.send(&Report::Output { node, stream, bytes: bytes.to_vec() })
}

/// Passes the launcher's signals on; ends the nodes when it is gone.
fn obey(events: &Sender<Event>) {
    let mut orders = io::stdin().lock();
    let send = |signal| _ = events.send(Event::Signal(signal));
    while let Ok(Some(order)) = read_line(&mut orders) {
        if let Some(signal) = order.strip_prefix("signal ").and_then(|number| number.parse().ok()) {
            send(signal);
        }
    }
    send(SIGTERM);
    thread::sleep(TERM_GRACE);
    send(SIGKILL);
}
