//! What `pangea bench` measures: each figure beside its bound, both in the same run, interleaved.
//!
//! Every group is a job of its own, in which node 0 measures and the others are what it measures
//! against. Absolute times mean little on a shared machine; the ratios are what counts.

mod atomics;
mod bandwidth;
mod barrier;
mod figure;
mod handover;
mod idle;
mod latency;
mod launch;
mod llm;
mod memory;
mod message;
mod perplexity;
mod pin;
mod predict;
mod random;
mod reading;
mod wire;

use std::error::Error;

pub use figure::Figure;
pub use latency::{Latency, access_latency};
pub use launch::{CHILD, do_nothing};
pub use llm::{LLAMA_BENCH, MODEL};
pub use perplexity::REFERENCE;
pub use reading::read;

/// Figures that are measured by one job.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// What `pangea bench` calls it.
    pub name: &'static str,
    /// Its figures: name, and what it is measured against.
    pub figures: &'static [(&'static str, &'static str)],
    /// What the nodes are told, beside what they are told anyway.
    pub environment: &'static [(&'static str, &'static str)],
    /// Not measured unless it is named: it needs what few machines have.
    pub is_special: bool,
    /// Measures them, in every node of a job; they come back from node 0.
    pub run: fn() -> Figures,
}

/// What a group comes to.
pub type Figures = Result<Vec<Figure>, Box<dyn Error>>;

/// All groups, in the order in which they are shown.
pub const GROUPS: &[Group] = &[
    group("latency", latency::FIGURES, latency::run),
    group("bandwidth", bandwidth::FIGURES, bandwidth::run),
    group("atomics", atomics::FIGURES, atomics::run),
    group("message", message::FIGURES, message::run),
    group("barrier", barrier::FIGURES, barrier::run),
    Group { environment: TCP, ..group("tcp", wire::PLAIN, wire::run_plain) },
    Group { environment: SEALED, ..group("tcp-encrypted", wire::SEALED, wire::run_sealed) },
    Group { environment: VERBS, is_special: true, ..group("verbs", wire::VERBS, wire::run_verbs) },
    group("idle", idle::FIGURES, idle::run),
    group("launch", launch::FIGURES, launch::run),
    group("llm", llm::FIGURES, llm::run),
    group("memory", memory::FIGURES, memory::run),
    group("predict", predict::FIGURES, predict::run),
    group("perplexity", perplexity::FIGURES, perplexity::run),
];

/// Over TCP, in the clear.
const TCP: &[(&str, &str)] = &[("PANGEA_PATH", "tcp"), ("PANGEA_TRUSTED_NETWORK", "1")];
/// Over TCP, encrypted even on one host.
const SEALED: &[(&str, &str)] = &[("PANGEA_PATH", "tcp"), ("PANGEA_TRUSTED_NETWORK", "0")];
/// By RDMA.
const VERBS: &[(&str, &str)] = &[("PANGEA_PATH", "verbs")];

const fn group(
    name: &'static str,
    figures: &'static [(&'static str, &'static str)],
    run: fn() -> Figures,
) -> Group {
    Group { name, figures, environment: &[], is_special: false, run }
}
