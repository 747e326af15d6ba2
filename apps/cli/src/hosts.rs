//! `pangea run --hosts`: the nodes of a job on several machines, started over ssh.
//!
//! One ssh a host runs `pangea run-host` there ([`relay`]), is told what to start and which signals
//! to pass on, and reports what the nodes print and how they end ([`message`]). What is to be done
//! about it is decided here, by the same supervision as for a job on one host.

mod file;
mod message;
mod outputs;
mod plan;
mod relay;
mod remote;

use std::{env, io};

use pangea::{
    NodeId,
    launch::{Ending, Processes, Supervision},
};

pub(crate) use self::{file::HostFile, plan::Plan, relay::run as run_host};
use self::{
    outputs::{Outputs, Unwritten},
    remote::Remote,
};
use crate::{
    args::Run,
    failure::{Failure, Result},
    job::{Requests, report},
    run::check_copied,
    sink::Sink,
};

pub(crate) fn run(args: &Run) -> Result {
    let hosts = args.hosts.as_deref().unwrap_or_default();
    let mut file = HostFile::read(hosts)
        .map_err(|error| Failure::usage(format!("--hosts {hosts}: {error}")))?;
    file.warnings.iter().for_each(|warning| eprintln!("pangea: {hosts}: {warning}"));
    let network = args.network.environment().into_iter();
    file.envs.extend(network.map(|(name, value)| (name.to_owned(), value)));
    let directory = args.remote_dir.clone().map_or_else(env::current_dir, Ok);
    let directory = directory.map_err(|error| {
        Failure::usage(format!("this folder has no path: {error}; see --remote-dir"))
    })?;
    let plan = Plan {
        file,
        nodes_per_entry: args.nodes.unwrap_or(1),
        program: args.program.clone(),
        directory,
        pangea: args.remote_pangea.clone(),
        coordinator: args.coordinator.clone(),
    };
    let unwritten = Unwritten::default();
    let ended = launch(&plan, &unwritten, |node| sinks(args, node));
    let code = report(ended?);
    let unwritten = unwritten.lock().ok().and_then(|mut unwritten| unwritten.take());
    check_copied(unwritten.map_or(Ok(()), Err))?;
    Ok(code)
}

/// Where the output and the errors of `node` go, as the command line says.
fn sinks(args: &Run, node: NodeId) -> Result<[Sink; 2]> {
    Ok(match &args.output {
        Some(folder) => [
            Sink::Plain(Box::new(Sink::file(folder, node, "out")?)),
            Sink::Plain(Box::new(Sink::file(folder, node, "err")?)),
        ],
        None if args.raw => {
            [Sink::Plain(Box::new(io::stdout())), Sink::Plain(Box::new(io::stderr()))]
        }
        None => [Sink::prefixed(node, io::stdout()), Sink::prefixed(node, io::stderr())],
    })
}

/// Runs a job, and returns how the first node failed, if one did; what keeps a whole host from its
/// part is an error. Output goes to the sinks of each node.
pub(crate) fn launch(
    plan: &Plan,
    unwritten: &Unwritten,
    mut sinks: impl FnMut(NodeId) -> Result<[Sink; 2]>,
) -> Result<Option<Ending>> {
    let place = plan.place()?;
    let jobs = plan.jobs(&place)?;
    let supervision = Supervision::new(place)?;
    Requests::listen()?.pass_on(supervision.events())?;
    let mut remotes = Remotes(Vec::new());
    for (name, job) in &jobs {
        let mut outputs = Outputs::new(unwritten.clone());
        for &node in job.nodes.keys() {
            let node = NodeId::new(node);
            outputs.add(node, sinks(node)?);
        }
        let pangea = plan.pangea_on(name)?;
        remotes.0.push(Remote::start(name, &pangea, job, outputs, supervision.events())?);
    }
    let failed = supervision.wait(&remotes);
    remotes.0.iter_mut().for_each(Remote::finish);
    let failed = failed?;
    let mut troubles = remotes.0.iter().filter_map(|remote| remote.trouble(failed?.node));
    troubles.next().map_or(Ok(failed), Err)
}

/// All hosts of a job.
#[derive(Debug)]
struct Remotes(Vec<Remote>);

impl Processes for Remotes {
    fn signal(&self, signal: i32) {
        self.0.iter().for_each(|remote| remote.signal(signal));
    }
}
