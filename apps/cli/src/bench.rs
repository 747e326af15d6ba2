//! `pangea bench`: figures beside their bounds.
//!
//! Each group is a job of its own, started from here; its node 0 hands its figures back as JSON.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{ExitCode, Stdio},
    thread,
};

use clap::ValueEnum;
use pangea::NodeId;
use pangea_benches::{Figure, GROUPS, Group, LLAMA_BENCH, MODEL, REFERENCE};
use pangea_llm::gguf::ModelFile;

use crate::{
    args::{Bench, NetworkPath},
    failure::{Failure, Result},
    job::{self, again, report},
    output,
};

/// Names the group that a node is to measure.
const GROUP: &str = "PANGEA_BENCH_GROUP";

pub(crate) fn run(args: Bench) -> Result {
    if let Ok(name) = env::var(GROUP) {
        return measure(&name);
    }
    let groups = choose(&args.names)?;
    if let Some(path) = &args.model {
        // Once here, rather than in every node.
        ModelFile::open(path)?.parse()?;
    }
    if args.list {
        output::write(&list(&groups))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.json {
        output::write(HEADING)?;
    }
    for group in groups {
        let (figures, code) = run_group(group, &args)?;
        if code != ExitCode::SUCCESS {
            return Ok(code);
        }
        let wanted = |figure: &&Figure| is_wanted(&args.names, group, &figure.name);
        for figure in figures.iter().filter(wanted) {
            print(figure, args.json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A node's part.
fn measure(name: &str) -> Result {
    let group = GROUPS.iter().find(|group| group.name == name);
    let group = group.ok_or_else(|| Failure::usage(format!("{GROUP}: there is no '{name}'")))?;
    for figure in (group.run)().map_err(|error| Failure::runtime(&*error))? {
        print(&figure, true)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The groups that have a figure of one of `names`; all, for none.
fn choose(names: &[String]) -> Result<Vec<&'static Group>> {
    let has = |group: &Group, name: &String| {
        *name == group.name || group.figures.iter().any(|(figure, _)| figure == name)
    };
    if let Some(unknown) = names.iter().find(|name| !GROUPS.iter().any(|group| has(group, name))) {
        let known: Vec<_> = GROUPS.iter().map(|group| group.name).collect();
        let known = known.join(", ");
        return Err(Failure::usage(format!("there is no '{unknown}' to measure; try {known}")));
    }
    let is_chosen = |group: &&Group| {
        let is_named = names.iter().any(|name| has(group, name));
        is_named || names.is_empty() && !group.is_special
    };
    Ok(GROUPS.iter().filter(is_chosen).collect())
}

fn is_wanted(names: &[String], group: &Group, figure: &str) -> bool {
    names.is_empty() || names.iter().any(|name| name == group.name || name == figure)
}

fn list(groups: &[&Group]) -> String {
    let figures = groups.iter().flat_map(|group| group.figures);
    figures.map(|(name, what)| format!("{name:<28} {what}\n")).collect()
}

fn run_group(group: &Group, args: &Bench) -> Result<(Vec<Figure>, ExitCode)> {
    let mut commands = Vec::new();
    for node in 0..args.nodes {
        let mut command = again()?;
        command.env(GROUP, group.name).stdin(Stdio::null());
        command.envs(group.environment.iter().copied());
        command.envs(args.model.iter().map(|path| (MODEL, path)));
        command.envs(args.reference.iter().map(|path| (REFERENCE, path)));
        command.envs(args.llama_bench.iter().map(|path| (LLAMA_BENCH, path)));
        if node == 0 {
            command.stdout(Stdio::piped());
        }
        commands.push(command);
    }
    let path = group.environment.iter().find(|(name, _)| *name == "PANGEA_PATH");
    let path = path.and_then(|(_, path)| NetworkPath::from_str(path, false).ok());
    let mut job = job::start_by(path, commands)?;
    let stdout = job.take_stdout(NodeId::new(0));
    // Read beside, so that this thread hears of signals.
    let read = thread::spawn(move || {
        let lines = stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines());
        lines.map_while(std::result::Result::ok).collect::<Vec<_>>()
    });
    let code = report(job.wait()?);
    let mut figures = Vec::new();
    for line in read.join().unwrap_or_default() {
        let figure = serde_json::from_str(&line);
        figures.push(
            figure.map_err(|error| Failure::usage(format!("a node printed {line}: {error}")))?,
        );
    }
    Ok((figures, code))
}

const HEADING: &str =
    "figure                            value      bound   ratio        p50        p99 unit\n";

fn print(figure: &Figure, json: bool) -> Result<()> {
    if json {
        let line = serde_json::to_string(figure);
        let line = line.map_err(|error| Failure::usage(error.to_string()))?;
        return Ok(output::write(&(line + "\n"))?);
    }
    let Figure { name, value, unit, bound, ratio, p50, p99, .. } = figure;
    Ok(output::write(&format!(
        "{name:<28} {value:>10.2} {bound:>10.2} {ratio:>7.3} {p50:>10.2} {p99:>10.2} {unit}\n"
    ))?)
}
