//! `pangea llm complete`: continues a text.

use pangea_llm::{
    generate::{Generation, Limits, Request, generate},
    gguf::ModelFile,
    sampler::{Sampler, Sampling},
    tokenizer::{Special, Tokenizer},
};
use serde_json::json;

use crate::{
    args::Complete,
    engine::Engine,
    failure::{Failure, Result},
    job, output,
};

pub(crate) fn run(args: &Complete) -> Result {
    // Checked here, before a cluster is started for nothing.
    let sampler = Sampler::new(sampling(args))?;
    let file = ModelFile::open(&args.model)?;
    if let Some(nodes @ 2..) = args.place.nodes.filter(|_| !job::is_node()) {
        file.parse()?;
        return job::run_again(nodes);
    }
    let engine = Engine::start(file, args.place.nodes)?;
    engine.run(|| complete(args, &engine, sampler))
}

fn sampling(args: &Complete) -> Sampling {
    let from = &args.sampling;
    Sampling {
        temperature: from.temperature,
        top_k: from.top_k,
        top_p: from.top_p,
        min_p: from.min_p,
        seed: from.seed,
    }
}

fn complete(args: &Complete, engine: &Engine, mut sampler: Sampler) -> Result<()> {
    let tokenizer = engine.tokenizer()?;
    let prompt = prompt(args, &tokenizer)?;
    let model = engine.model(&args.place)?;
    let mut session = model.session(engine.context(args.context))?;
    let request = Request {
        prompt: &prompt,
        limits: Limits { max_tokens: args.max_tokens, ignore_end: args.ignore_eos },
        check: &|| engine.check(),
    };
    let mut show = |text: &str| if args.json { Ok(()) } else { output::write(text) };
    if let (false, Some(text)) = (args.json, &args.prompt) {
        show(text)?;
    }
    let generation = generate(&mut session, &tokenizer, &mut sampler, request, &mut show)?;
    if args.json {
        output::write(&format!("{}\n", report(args, &prompt, &generation)))?;
    } else {
        show("\n")?;
        eprintln!(
            "{} tokens ({}), {:.1} tokens/s, {:.0} ms to the first",
            generation.ids.len(),
            generation.stop.name(),
            generation.tokens_per_second(),
            generation.first_token.as_secs_f64() * 1e3
        );
    }
    Ok(())
}

fn prompt(args: &Complete, tokenizer: &Tokenizer) -> Result<Vec<u32>> {
    let ids = match &args.prompt {
        Some(text) => tokenizer.encode_prompt(text, Special::Parse),
        None => args.prompt_ids.clone(),
    };
    // A model without a token to begin with cannot continue nothing.
    let ids = if ids.is_empty() { tokenizer.bos().into_iter().collect() } else { ids };
    if ids.is_empty() {
        return Err(Failure::usage("--prompt: it is empty; give a text to continue"));
    }
    Ok(ids)
}

fn report(args: &Complete, prompt: &[u32], generation: &Generation) -> serde_json::Value {
    let seconds = generation.first_token.as_secs_f64();
    let mut report = json!({
        "prompt_ids": prompt,
        "ids": generation.ids,
        "text": generation.text,
        "stop": generation.stop.name(),
        "prompt_tokens_per_second": prompt.len() as f64 / seconds,
        "tokens_per_second": generation.tokens_per_second(),
        "first_token_ms": seconds * 1e3,
    });
    if args.top_logits > 0 {
        report["top_logits"] = json!(top(&generation.first_logits, args.top_logits));
    }
    report
}

/// The largest logits with their tokens, largest first.
fn top(logits: &[f32], count: usize) -> Vec<(usize, f32)> {
    let mut ranked: Vec<_> = logits.iter().copied().enumerate().collect();
    ranked.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    ranked.truncate(count);
    ranked
}
