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
mod random;
mod reading;

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
    /// Measures them, in every node of a job; they come back from node 0.
    pub run: fn() -> Figures,
}

/// What a group comes to.
pub type Figures = Result<Vec<Figure>, Box<dyn Error>>;

/// All groups, in the order in which they are shown.
pub const GROUPS: &[Group] = &[
    Group { name: "latency", figures: latency::FIGURES, run: latency::run },
    Group { name: "bandwidth", figures: bandwidth::FIGURES, run: bandwidth::run },
    Group { name: "atomics", figures: atomics::FIGURES, run: atomics::run },
    Group { name: "message", figures: message::FIGURES, run: message::run },
    Group { name: "barrier", figures: barrier::FIGURES, run: barrier::run },
    Group { name: "idle", figures: idle::FIGURES, run: idle::run },
    Group { name: "launch", figures: launch::FIGURES, run: launch::run },
    Group { name: "llm", figures: llm::FIGURES, run: llm::run },
    Group { name: "memory", figures: memory::FIGURES, run: memory::run },
    Group { name: "perplexity", figures: perplexity::FIGURES, run: perplexity::run },
];
