//! What can be typed.

use std::{ffi::OsString, path::PathBuf};

use clap::{Parser, Subcommand, ValueEnum, value_parser};

/// One memory from many machines.
#[derive(Debug, Parser)]
#[command(name = "pangea", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a program as the nodes of a cluster, on this machine or on several
    Run(Run),
    /// Start nodes as a launcher elsewhere says
    #[command(hide = true)]
    RunHost,
    /// Generate text on two nodes with the bundled model, and show where its weights are
    Demo(Demo),
    /// Run a language model whose weights live in the heaps of several nodes
    #[command(subcommand)]
    Llm(Llm),
    /// Measure latency, bandwidth and synchronisation, each beside its bound
    Bench(Bench),
    /// Say what this machine can do, what is wrong, and what to do about it
    Doctor(Doctor),
    /// Make a file with a key for a cluster of several hosts
    Key(Key),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// How many nodes, 1 to 128 [default: 2; with --hosts one for each entry]
    #[arg(short = 'n', long, value_parser = value_parser!(u16).range(1..=128))]
    pub(crate) nodes: Option<u16>,
    /// Start them on these hosts, over ssh: a file as mlx.launch reads it, or names with commas
    /// between them
    #[arg(long, value_name = "FILE|NAMES")]
    pub(crate) hosts: Option<String>,
    #[command(flatten)]
    pub(crate) network: Network,
    /// Where the nodes of several hosts meet: an address of this host that all of them reach
    #[arg(long, value_name = "ADDRESS[:PORT]", requires = "hosts")]
    pub(crate) coordinator: Option<String>,
    /// The folder in which the program starts on other hosts [default: this one]
    #[arg(long, value_name = "FOLDER", requires = "hosts")]
    pub(crate) remote_dir: Option<PathBuf>,
    /// Where pangea is on other hosts [default: where it is here]
    #[arg(long, value_name = "PATH", requires = "hosts")]
    pub(crate) remote_pangea: Option<PathBuf>,
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

/// How nodes reach each other.
#[derive(Debug, clap::Args)]
pub(crate) struct Network {
    /// How nodes reach each other [default: auto, the best that there is]
    #[arg(long)]
    pub(crate) path: Option<NetworkPath>,
    /// Fail rather than do without
    #[arg(long)]
    require: Option<Requirement>,
    /// Nobody but friends can see what travels: do not encrypt it
    #[arg(long)]
    trusted_network: bool,
}

impl Network {
    /// The environment variables that tell a node.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let mut environment = Vec::new();
        if let Some(path) = self.path {
            environment.push(("PANGEA_PATH", name(path)));
        }
        if let Some(requirement) = self.require {
            environment.push(("PANGEA_REQUIRE", name(requirement)));
        }
        if self.trusted_network {
            environment.push(("PANGEA_TRUSTED_NETWORK", "1".to_owned()));
        }
        environment
    }
}

/// What is typed for `value`.
fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum NetworkPath {
    /// Shared memory on a host, RDMA between hosts where it works, else TCP
    Auto,
    /// Shared memory
    Shm,
    /// TCP
    Tcp,
    /// RDMA
    Verbs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Requirement {
    /// RDMA between every two hosts
    Rdma,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    /// How many nodes, 1 to 8
    #[arg(short = 'n', long, default_value_t = 2, value_parser = value_parser!(u16).range(1..=8))]
    pub(crate) nodes: u16,
    /// What to continue
    #[arg(
        short,
        long,
        allow_hyphen_values = true,
        default_value = "It is a truth universally acknowledged, that"
    )]
    pub(crate) prompt: String,
    /// Tokens to generate
    #[arg(long, default_value_t = 160)]
    pub(crate) max_tokens: usize,
    /// Another seed gives another text
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Llm {
    /// Continue a text
    Complete(Complete),
    /// Show what is in a model file, and where it would live
    Inspect(Inspect),
    /// Measure how well a model predicts a text: its perplexity
    Perplexity(Perplexity),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Complete {
    /// The model, a GGUF file
    pub(crate) model: PathBuf,
    /// What to continue
    #[arg(
        short,
        long,
        allow_hyphen_values = true,
        conflicts_with = "prompt_ids",
        required_unless_present = "prompt_ids"
    )]
    pub(crate) prompt: Option<String>,
    /// Token numbers to continue, instead of a text
    #[arg(long, value_delimiter = ',', value_name = "ID,ID,…")]
    pub(crate) prompt_ids: Vec<u32>,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) sampling: Sampling,
    /// Tokens that the text may have, with the prompt [default: the model's, at most 4096]
    #[arg(short, long)]
    pub(crate) context: Option<usize>,
    /// Tokens to generate, at most
    #[arg(long, default_value_t = 128)]
    pub(crate) max_tokens: usize,
    /// Go on after a token that ends a text
    #[arg(long)]
    pub(crate) ignore_eos: bool,
    /// Print one JSON object instead of the text
    #[arg(long)]
    pub(crate) json: bool,
    /// With --json: the largest logits after the prompt
    #[arg(long, value_name = "K", default_value_t = 0, requires = "json")]
    pub(crate) top_logits: usize,
}

/// Where a model runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// How many nodes hold the weights, 1 to 128 [default: 1, or those of the job]
    #[arg(short = 'n', long, value_parser = value_parser!(u16).range(1..=128))]
    pub(crate) nodes: Option<u16>,
    /// Threads that compute [default: one a core]
    #[arg(short, long, value_parser = value_parser!(u16).range(1..=128))]
    pub(crate) threads: Option<u16>,
}

/// How the next token is chosen.
#[derive(Debug, clap::Args)]
pub(crate) struct Sampling {
    /// 0 takes the likeliest token always; more is more varied
    #[arg(long, allow_negative_numbers = true, default_value_t = 0.0)]
    pub(crate) temperature: f32,
    /// Choose among the K likeliest; 0 is no limit
    #[arg(long, default_value_t = 0)]
    pub(crate) top_k: usize,
    /// Choose among the likeliest that have this probability together
    #[arg(long, allow_negative_numbers = true, default_value_t = 1.0)]
    pub(crate) top_p: f32,
    /// Choose among those that have this part of the likeliest's probability
    #[arg(long, allow_negative_numbers = true, default_value_t = 0.0)]
    pub(crate) min_p: f32,
    /// The same seed gives the same text
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Inspect {
    /// The model, a GGUF file
    pub(crate) model: PathBuf,
    /// Show where the weights would live on this many nodes, 1 to 128
    #[arg(short = 'n', long, default_value_t = 2, value_parser = value_parser!(u16).range(1..=128))]
    pub(crate) nodes: u16,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Perplexity {
    /// The model, a GGUF file
    pub(crate) model: PathBuf,
    /// The text, a UTF-8 file
    pub(crate) text: PathBuf,
    /// Tokens that are predicted from each other
    #[arg(long, default_value_t = 500)]
    pub(crate) window: usize,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    /// Groups or figures to measure; all, if none is named
    pub(crate) names: Vec<String>,
    /// How many nodes, 2 to 64
    #[arg(short = 'n', long, default_value_t = 2, value_parser = value_parser!(u16).range(2..=64))]
    pub(crate) nodes: u16,
    /// Print one JSON object a line: name, value, unit, bound, ratio, p50, p99, runs
    #[arg(long)]
    pub(crate) json: bool,
    /// The model of the group llm, a GGUF file [default: the bundled one]
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// What llama.cpp makes of the model, as in apps/llm/tests/fidelity/reference
    #[arg(long, value_name = "FILE", requires = "model")]
    pub(crate) reference: Option<PathBuf>,
    /// The program llama-bench, to be measured by turns with us
    #[arg(long, value_name = "PROGRAM", requires = "model")]
    pub(crate) llama_bench: Option<PathBuf>,
    /// List what can be measured, and against what
    #[arg(long)]
    pub(crate) list: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// Print a JSON list: name, state, found, remedy
    #[arg(long)]
    pub(crate) json: bool,
    /// Write pangea-report.txt and .json, to be sent to us: all checks and what they asked, without
    /// names, serial numbers, keys and the ends of addresses
    #[arg(long)]
    pub(crate) report: bool,
    /// Prove the path to this host, over ssh: both directions, data checked, latency, bandwidth
    #[arg(long, value_name = "HOST")]
    pub(crate) pair: Option<String>,
    /// Be one of the two nodes that prove a path
    #[arg(long, hide = true)]
    pub(crate) pair_node: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Key {
    /// Where to write it; nothing that is there is overwritten
    pub(crate) file: PathBuf,
}
