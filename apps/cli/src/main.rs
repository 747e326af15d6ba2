//! The command `pangea`: run, demo, bench, llm.

mod args;
mod bench;
mod demo;
mod engine;
mod failure;
mod job;
mod llm;
mod output;
mod run;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};

fn main() -> ExitCode {
    if let Some(what) = std::env::var_os(pangea_benches::CHILD) {
        let done = pangea_benches::do_nothing(&what.to_string_lossy());
        return if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let result = match Args::parse().command {
        Command::Run(args) => run::run(args),
        Command::Demo(args) => demo::run(&args),
        Command::Llm(args) => llm::run(&args),
        Command::Bench(args) => bench::run(args),
    };
    result.unwrap_or_else(|failure| failure.report())
}
