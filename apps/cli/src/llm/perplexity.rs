//! `pangea llm perplexity`: how well a model predicts a text.

use std::fs;

use pangea_llm::{gguf::ModelFile, perplexity, tokenizer::Special};

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
    if let Some(nodes @ 2..) = args.place.nodes.filter(|_| !job::is_node()) {
        file.parse()?;
        return job::run_again(nodes);
    }
    let engine = Engine::start(file, args.place.nodes)?;
    engine.run(|| measure(args, &engine, &text))
}

fn measure(args: &Perplexity, engine: &Engine, text: &str) -> Result<()> {
    let ids = engine.tokenizer()?.encode_prompt(text, Special::Text);
    let model = engine.model(&args.place)?;
    let mut session = model.session(args.window)?;
    let found = perplexity::measure(&mut session, &ids, args.window, &|| engine.check())?;
    let text = format!(
        "perplexity {:.4} ({} predictions, {:.6} nats each)\n",
        found.perplexity(),
        found.predictions,
        found.mean
    );
    Ok(output::write(&text)?)
}
