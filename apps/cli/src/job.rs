//! Starting this very program as the nodes of a job.

use std::{
    env,
    net::Ipv4Addr,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
    sync::mpsc::{self, Sender},
    thread,
};

use clap::ValueEnum;
use pangea::launch::{Ending, Event, Job, Place, is_ignored};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::{
    args::NetworkPath,
    failure::{Failure, Result},
};

/// Whether this process is already a node of a job.
pub(crate) fn is_node() -> bool {
    ["PANGEA_RENDEZVOUS", "PANGEA_COORDINATOR"].into_iter().any(|name| env::var_os(name).is_some())
}

/// The path of this program.
pub(crate) fn this_program() -> Result<PathBuf> {
    env::current_exe().map_err(|error| Failure::usage(format!("cannot find this program: {error}")))
}

/// A command that starts this program again with the same arguments.
pub(crate) fn again() -> Result<Command> {
    let mut command = Command::new(this_program()?);
    command.args(env::args_os().skip(1));
    Ok(command)
}

/// Starts this program with the same arguments as `nodes` nodes, and waits until they have ended.
/// Node 0 has the terminal.
pub(crate) fn run_again(nodes: u16) -> Result {
    let mut commands = Vec::new();
    for node in 0..nodes {
        let mut command = again()?;
        if node != 0 {
            command.stdin(Stdio::null());
        }
        commands.push(command);
    }
    Ok(report(start(commands)?.wait()?))
}

/// Gets lines that say how nodes reach each other, and prints them.
pub(crate) fn print_ways() -> Sender<String> {
    let (sender, lines) = mpsc::channel::<String>();
    // It ends with the last sender.
    thread::spawn(move || lines.iter().for_each(|line| eprintln!("pangea: {line}")));
    sender
}

/// Starts a job to whose nodes Ctrl-C and requests to end are passed on; `PANGEA_PATH` says how
/// they reach each other.
pub(crate) fn start(commands: Vec<Command>) -> Result<Job> {
    start_by(None, commands)
}

/// Likewise, for nodes that reach each other by `path`.
pub(crate) fn start_by(path: Option<NetworkPath>, commands: Vec<Command>) -> Result<Job> {
    let nodes = u16::try_from(commands.len()).unwrap_or(u16::MAX);
    let named = env::var("PANGEA_PATH").ok();
    let named = named.and_then(|name| NetworkPath::from_str(&name, false).ok());
    let place = match path.or(named) {
        // Where nodes do not share memory they meet as those of several hosts do.
        Some(NetworkPath::Tcp | NetworkPath::Verbs) => {
            Place::network(&[(Ipv4Addr::LOCALHOST, 0).into()], nodes)?.telling(print_ways())
        }
        Some(NetworkPath::Auto | NetworkPath::Shm) | None => Place::local(nodes)?,
    };
    // From before the start: a signal in between would end this process alone.
    let requests = Requests::listen()?;
    let job = Job::start_at(place, commands)?;
    requests.pass_on(job.events())?;
    Ok(job)
}

/// Requests to end, of which a launcher's nodes are told.
#[derive(Debug)]
pub(crate) struct Requests(Signals);

impl Requests {
    /// Takes them in from now on.
    pub(crate) fn listen() -> Result<Self> {
        let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
        let signals = Signals::new(wanted);
        let signals = signals
            .map_err(|error| Failure::usage(format!("cannot listen for signals: {error}")))?;
        Ok(Self(signals))
    }

    /// Passes them on to a job.
    pub(crate) fn pass_on(mut self, events: Sender<Event>) -> Result<()> {
        // A job that has ended needs none.
        let pass_on =
            move || self.0.forever().for_each(|signal| _ = events.send(Event::Signal(signal)));
        let thread = thread::Builder::new().spawn(pass_on);
        thread.map_err(|error| Failure::usage(format!("cannot start a thread: {error}")))?;
        Ok(())
    }
}

/// Says which node failed first; gives its code.
pub(crate) fn report(failed: Option<Ending>) -> ExitCode {
    let Some(ending) = failed else { return ExitCode::SUCCESS };
    eprintln!("pangea: {} failed: {}", ending.node, ending.status);
    ExitCode::from(ending.code())
}
