//! `pangea llm`: models whose weights live in the heaps of several nodes.

mod complete;
mod inspect;
mod perplexity;

use crate::{args::Llm, failure::Result};

pub(crate) fn run(args: &Llm) -> Result {
    match args {
        Llm::Complete(args) => complete::run(args),
        Llm::Inspect(args) => inspect::run(args),
        Llm::Perplexity(args) => perplexity::run(args),
    }
}
