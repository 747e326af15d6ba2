//! `pangea doctor`: what this machine can do, what is wrong, and what to do about it.

mod check;
mod everywhere;
mod linux;
mod machine;
mod macos;
mod pair;
mod pair_node;
mod report;
mod settings;
mod trial;

use std::{env::consts, path::Path, process::ExitCode};

use self::{
    check::{Check, State},
    machine::{Machine, ThisMachine},
};
use crate::{
    args::Doctor,
    failure::{Failure, Result},
    output,
};

pub(crate) fn run(args: &Doctor) -> Result {
    if args.pair_node {
        return pair_node::run();
    }
    let machine = ThisMachine::default();
    let mut checks = checks(&machine);
    checks.extend(pair::here());
    if let Some(host) = &args.pair {
        checks.extend(pair::pair(host)?);
    }
    output::write(&if args.json { json(&checks)? } else { text(&checks) })?;
    if args.report {
        let path = report::write(Path::new("."), &checks, &machine)?;
        eprintln!("the report is in {}, and beside it as JSON", path.display());
    }
    let is_well = checks.iter().all(|check| check.state != State::Problem);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Looks into everything that matters on this machine.
fn checks(machine: &dyn Machine) -> Vec<Check> {
    let mut checks = everywhere::checks(machine);
    checks.extend(trial::checks());
    checks.extend(match consts::OS {
        "macos" => macos::checks(machine),
        _ => linux::checks(machine),
    });
    checks
}

fn text(checks: &[Check]) -> String {
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let (problems, warnings) = (count(State::Problem), count(State::Warning));
    let lines: String = checks.iter().map(|check| format!("{check}\n")).collect();
    format!("{lines}\nproblems: {problems}, warnings: {warnings}\n")
}

fn json(checks: &[Check]) -> Result<String> {
    let json = serde_json::to_string_pretty(checks);
    json.map(|json| json + "\n").map_err(|error| Failure::usage(error.to_string()))
}
