//! `pangea llm perplexity`: how well a model predicts a text.

use std::fs;

use pangea_llm::{gguf::ModelFile, tokenizer::Special};

use crate::{
    args::Perplexity,
    engine::Engine,
    failure::{Failure, Result},
    job, output,
};

pub(crate) fn run(args: &Perplexity) -> Result {
    if args.window < 2 {
        return Err(Failure::usage("--window: at least 2 tokens, as one predicts the next"));
    }
    let cannot_read =
        |error| Failure::usage(format!("cannot read {}: {error}", args.text.display()));
    let text = fs::read_to_string(&args.text).map_err(cannot_read)?;
    let file = ModelFile::open(&args.model)?;
    if args.place.nodes > 1 && !job::is_node() {
        return job::run_again(args.place.nodes);
    }
    let engine = Engine::start(file)?;
    engine.run(|| measure(args, &engine, &text))
}

/// Cuts the text into windows, each of which is run from its start and predicts all but its first
/// token.
fn measure(args: &Perplexity, engine: &Engine, text: &str) -> Result<()> {
    let ids = engine.tokenizer()?.encode_prompt(text, Special::Text);
    let model = engine.model(&args.place)?;
    let mut session = model.session(args.window)?;
    let (mut sum, mut count) = (0.0, 0_u32);
    for window in ids.chunks(args.window) {
        engine.check()?;
        session.truncate(0);
        session.forward_each(window, |at, logits| {
            if let Some(&next) = window.get(at + 1) {
                sum += surprise(logits, next);
                count += 1;
            }
        })?;
    }
    if count == 0 {
        return Err(Failure::usage("the text has no two tokens, of which one predicts the other"));
    }
    let mean = sum / f64::from(count);
    let perplexity = mean.exp();
    let text = format!("perplexity {perplexity:.4} ({count} predictions, {mean:.6} nats each)\n");
    Ok(output::write(&text)?)
}

/// The negative logarithm of the probability that `logits` give to `id`.
fn surprise(logits: &[f32], id: u32) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - largest).exp()).sum();
    let logit = usize::try_from(id).ok().and_then(|id| logits.get(id)).copied();
    f64::from(largest) + sum.ln() - f64::from(logit.unwrap_or(f32::NEG_INFINITY))
}
