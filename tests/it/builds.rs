//! Nodes of one job that were built from different sources.

use std::process::Command;

use pangea_tests::Path;

use crate::job::{Outcome, run_each};

const FIRST: &str = env!("CARGO_BIN_EXE_shared-type");
const SECOND: &str = env!("CARGO_BIN_EXE_shared_type");
const OTHER: &str = env!("CARGO_BIN_EXE_other-program");

fn command(program: &str, type_of: &str) -> Command {
    let mut command = Command::new(program);
    command.arg(type_of).env("PANGEA_HEAP", "64M").env("PANGEA_TIMEOUT", "60");
    command
}

/// How a node of the first program and one of `program` get on with each other.
fn run(path: Path, program: &str, type_of: &str) -> Outcome {
    let outcome = run_each(path, vec![command(FIRST, ""), command(program, type_of)]);
    outcome.unwrap_or_else(|(error, output)| panic!("{path:?}: {error}: {output:?}"))
}

#[test]
fn nodes_of_two_builds_do_not_join_and_both_know_why() {
    for path in [Path::Shm, Path::Tcp] {
        let commands = [FIRST, FIRST, SECOND].map(|program| command(program, ""));
        let (error, output) = run_each(path, commands.into()).unwrap_err();
        let reason = "the type shared_type::Sample has one layout in node";
        let told: Vec<_> = output.iter().filter(|text| text.contains(reason)).collect();
        // One that comes after that finds nobody.
        let is_told = told.len() >= 2 && output[2].contains(reason);
        assert!(is_told && error.to_string().contains(reason), "{path:?}: {error}: {output:?}");
        assert!(told.iter().all(|text| text.contains("from the same source")), "{output:?}");
    }
}

#[test]
fn two_programs_may_share_what_they_agree_on() {
    for path in [Path::Shm, Path::Tcp] {
        let outcome = run(path, OTHER, "same");
        assert!(outcome.failed.is_none(), "{path:?}: {outcome:?}");
    }
}

#[test]
fn a_type_that_another_program_defines_otherwise_is_refused() {
    for path in [Path::Shm, Path::Tcp] {
        let outcome = run(path, OTHER, "sorted");
        let expected = "'shared' is a GlobalVec of shared_type::Sample with another layout than a \
                        GlobalVec of other_program::sorted::Sample has here";
        assert!(outcome.output[1].contains(expected), "{path:?}: {outcome:?}");
    }
}
