//! A node of a test: does the scenario that its argument names, as one process of a job.
//!
//! What a scenario checks, it checks here, in every node; that all of them end well, or as they
//! should, is checked by the tests in `it/`.

mod cables;
mod failure;
mod loss;
mod memory;

use std::{env, process::ExitCode};

use pangea::{Cluster, Config, Result};

type Scenario = fn(&Cluster) -> Result;

const SCENARIOS: &[(&str, Scenario)] = &[
    ("atomics", memory::atomics),
    ("barriers", memory::barriers),
    ("bulk", memory::bulk),
    ("exhaust", memory::exhaust),
    ("filled", memory::filled),
    ("frozen", memory::frozen),
    ("huge", memory::huge),
    ("names", memory::names),
    ("reuse", memory::reuse),
    ("spread", memory::spread),
    ("ways", memory::ways),
    ("die_in_barrier", failure::die_in_barrier),
    ("die_with_data", failure::die_with_data),
    ("die_unpublished", failure::die_unpublished),
    ("end_early", failure::end_early),
    ("exit_early", failure::exit_early),
    ("fail", failure::fail),
    ("idle", failure::idle),
    ("panic", failure::panic),
    ("pull_main", cables::pull_main),
    ("pull_stripe", cables::pull_stripe),
    ("stop", failure::stop),
    ("lose_in_atomics", loss::in_atomics),
    ("lose_in_barrier", loss::in_barrier),
    ("lose_in_gets", loss::in_gets),
];

fn main() -> ExitCode {
    let name = env::args().nth(1).unwrap_or_default();
    if name == "never_join" {
        return failure::never_join();
    }
    let Some((_, scenario)) = SCENARIOS.iter().find(|(known, _)| *known == name) else {
        eprintln!("there is no scenario '{name}'");
        return ExitCode::from(2);
    };
    match Config::from_env().and_then(Cluster::join).and_then(|cluster| scenario(&cluster)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
