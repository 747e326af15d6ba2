//! How well a model predicts a text, against llama.cpp on the same file and text.

use std::{env, error::Error, fs};

use pangea::{Cluster, Config, cores};
use pangea_llm::{
    config::Config as Shape, forward::Model, kernels::Kernels, perplexity, plan::Plan, pool::Pool,
    weights::Heaps,
};
use serde::Deserialize;

use crate::{Figure, Figures, llm::model_file};

pub(crate) const FIGURES: &[(&str, &str)] =
    &[("perplexity", "perplexity of a text, against llama.cpp's (--reference)")];

/// The file with the text and what llama.cpp makes of it; that of the bundled model, if it is not
/// set.
pub const REFERENCE: &str = "PANGEA_BENCH_REFERENCE";

/// What llama.cpp made of the bundled model.
const BUNDLED: &str = include_str!("../../apps/llm/tests/fidelity/reference/austen-q8_0.json");

#[derive(Deserialize)]
struct Reference {
    excerpt: Excerpt,
}

/// A text, and how surprised llama.cpp was by it.
#[derive(Deserialize)]
struct Excerpt {
    ids: Vec<u32>,
    window: usize,
    /// Mean surprise in nats.
    nll: f64,
}

pub(crate) fn run() -> Figures {
    let cluster = Cluster::join(Config::from_env()?)?;
    let text = env::var_os(REFERENCE).map_or_else(|| Ok(BUNDLED.to_owned()), fs::read_to_string)?;
    let excerpt = serde_json::from_str::<Reference>(&text)?.excerpt;
    let file = model_file()?;
    let shape = Shape::read(&file.parse()?)?;
    let plan = Plan::new(&file.parse()?, &shape, usize::from(cluster.nodes()))?;
    let heaps = Heaps::load(&cluster, &file, &plan, "model")?;
    let mut figures = Vec::new();
    if cluster.node().number() == 0 {
        let model = Model::new(
            &shape,
            heaps.weights(&shape, &plan)?,
            Kernels::from_env()?,
            Pool::new(cores()),
        );
        figures.push(measure(&model, &excerpt)?);
    }
    cluster.barrier()?;
    Ok(figures)
}

fn measure(model: &Model<'_>, excerpt: &Excerpt) -> Result<Figure, Box<dyn Error>> {
    let mut session = model.session(excerpt.window)?;
    let found = perplexity::measure(&mut session, &excerpt.ids, excerpt.window, &|| Ok(()))?;
    let (value, bound) = (found.perplexity(), excerpt.nll.exp());
    Ok(Figure::compare("perplexity", "", 1, || vec![value], || vec![bound]))
}
