//! What can be typed.

use std::{ffi::OsString, path::PathBuf};

use clap::{Parser, Subcommand, value_parser};

/// One memory from many machines.
#[derive(Debug, Parser)]
#[command(name = "pangea", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a program as the nodes of a cluster, on this machine
    Run(Run),
    /// Measure latency, bandwidth and synchronisation, each beside its bound
    Bench(Bench),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// How many nodes
    #[arg(short = 'n', long, default_value_t = 2, value_parser = value_parser!(u16).range(1..=256))]
    pub(crate) nodes: u16,
    /// Write each node's output to node-N.out and node-N.err in this folder
    #[arg(short, long, value_name = "FOLDER", conflicts_with = "raw")]
    pub(crate) output: Option<PathBuf>,
    /// Leave output as it is, without the node's number before each line
    #[arg(long)]
    pub(crate) raw: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) program: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    /// Groups or figures to measure; all, if none is named
    pub(crate) names: Vec<String>,
    /// How many nodes
    #[arg(short = 'n', long, default_value_t = 2, value_parser = value_parser!(u16).range(2..=64))]
    pub(crate) nodes: u16,
    /// Print one JSON object a line: name, value, unit, bound, ratio, p50, p99, runs
    #[arg(long)]
    pub(crate) json: bool,
    /// List what can be measured, and against what
    #[arg(long)]
    pub(crate) list: bool,
}
