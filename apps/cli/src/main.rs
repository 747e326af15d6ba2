//! The command `pangea`: run, demo, llm, bench, doctor, key.

mod args;
mod bench;
mod demo;
mod doctor;
mod engine;
mod failure;
mod hosts;
mod job;
mod key;
mod llm;
mod output;
mod run;
mod sink;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};

fn main() -> ExitCode {
    if let Some(what) = std::env::var_os(pangea_benches::CHILD) {
        let done = pangea_benches::do_nothing(&what.to_string_lossy());
        return if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let result = match Args::parse().command {
        Command::Run(args) => run::run(&args),
        Command::RunHost => hosts::run_host(),
        Command::Demo(args) => demo::run(&args),
        Command::Llm(args) => llm::run(&args),
        Command::Bench(args) => bench::run(args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Key(args) => key::run(&args),
    };
    result.unwrap_or_else(|failure| failure.report())
}
