//! Starting this very program as the nodes of a job.

use std::{
    env,
    process::{Command, ExitCode, Stdio},
    thread,
};

use pangea::launch::{Ending, Job, is_ignored};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::failure::{Failure, Result};

/// Whether this process is already a node of a job.
pub(crate) fn is_node() -> bool {
    env::var_os("PANGEA_RENDEZVOUS").is_some()
}

/// A command that starts this program again with the same arguments.
pub(crate) fn again() -> Result<Command> {
    let program = env::current_exe()
        .map_err(|error| Failure::usage(format!("cannot find this program: {error}")))?;
    let mut command = Command::new(program);
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

/// Starts a job to whose nodes Ctrl-C and requests to end are passed on.
pub(crate) fn start(commands: Vec<Command>) -> Result<Job> {
    // Listened for from before the start: a signal in between would end this process alone.
    let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
    let mut signals = Signals::new(wanted)
        .map_err(|error| Failure::usage(format!("cannot listen for signals: {error}")))?;
    let job = Job::start(commands)?;
    let nodes = job.signals();
    let pass_on = move || signals.forever().for_each(|signal| nodes.send(signal));
    let thread = thread::Builder::new().spawn(pass_on);
    thread.map_err(|error| Failure::usage(format!("cannot start a thread: {error}")))?;
    Ok(job)
}

/// Says which node failed first; gives its code.
pub(crate) fn report(failed: Option<Ending>) -> ExitCode {
    let Some(ending) = failed else { return ExitCode::SUCCESS };
    eprintln!("pangea: {} failed: {}", ending.node, ending.status);
    ExitCode::from(ending.code())
}
