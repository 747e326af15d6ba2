//! `pangea demo`: the whole in a minute: two nodes, one memory, a model in it that writes.

use pangea::NodeId;
use pangea_benches::{Latency, access_latency};
use pangea_llm::{
    generate::{Generation, Limits, Request, generate},
    gguf::ModelFile,
    sampler::{Sampler, Sampling},
    tokenizer::Special,
};

use crate::{
    args::{Demo, Place},
    engine::Engine,
    failure::Result,
    job, output,
};

pub(crate) fn run(args: &Demo) -> Result {
    if args.nodes > 1 && !job::is_node() {
        return job::run_again(args.nodes);
    }
    let engine = Engine::start(ModelFile::bundled(), Some(args.nodes))?;
    engine.run(|| {
        let generation = write(args, &engine)?;
        Ok(output::write(&table(&engine, &generation)?)?)
    })
}

/// Continues the prompt. So small a model repeats itself unless it is made to vary.
fn write(args: &Demo, engine: &Engine) -> Result<Generation> {
    let sampling = Sampling { temperature: 0.8, top_k: 40, seed: args.seed, ..Sampling::default() };
    let mut sampler = Sampler::new(sampling)?;
    let place = Place { nodes: None, threads: None };
    let tokenizer = engine.tokenizer()?;
    let mut prompt = tokenizer.encode_prompt(&args.prompt, Special::Text);
    if prompt.is_empty() {
        // With this token a chapter begins.
        prompt.extend(tokenizer.bos());
    }
    let model = engine.model(&place)?;
    let mut session = model.session(engine.context(None))?;
    output::write(&args.prompt)?;
    let request = Request {
        prompt: &prompt,
        limits: Limits { max_tokens: args.max_tokens, ignore_end: true },
        check: &|| engine.check(),
    };
    let generation = generate(&mut session, &tokenizer, &mut sampler, request, &mut output::write)?;
    output::write("\n\n")?;
    Ok(generation)
}

fn table(engine: &Engine, generation: &Generation) -> Result<String> {
    let (cluster, plan) = (&engine.cluster, &engine.plan);
    let mut table = format!("{:<8} {:<14} {:>10}\n", "node", "path", "weights");
    for node in NodeId::all(cluster.nodes()) {
        let bytes = bytes(plan.weight_bytes(node.index()));
        table += &format!("{:<8} {:<14} {bytes:>10}\n", node.number(), cluster.path(node).name);
    }
    let home = plan.weight_bytes(0);
    let remote: usize = (1..usize::from(cluster.nodes())).map(|node| plan.weight_bytes(node)).sum();
    table += &format!("weights at home     {:>10}\n", bytes(home));
    table += &format!("weights remote      {:>10}\n", bytes(remote));
    table += &format!("first token      {:>10.1} ms\n", generation.first_token.as_secs_f64() * 1e3);
    table += &format!("speed            {:>10.1} tokens/s\n", generation.tokens_per_second());
    let farthest = NodeId::new(cluster.nodes() - 1);
    let [load, page] = access_latency(cluster, farthest)?;
    table += &latency_row("8-byte load", farthest, load);
    table += &latency_row("4 KiB read", farthest, page);
    Ok(table)
}

fn latency_row(what: &str, home: NodeId, latency: Latency) -> String {
    let Latency { p50, p99 } = latency;
    format!("{what} of {home} {p50:>8.1} ns (p50) {p99:>8.1} ns (p99)\n")
}

fn bytes(count: usize) -> String {
    format!("{:.2} MiB", count as f64 / f64::from(1 << 20))
}
