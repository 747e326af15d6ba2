//! How fast a model decodes, against reading its weights, another node's against one's own, and
//! llama.cpp where there is one.

use std::{env, error::Error, hint::black_box, process::Command, time::Instant};

use pangea::{Cluster, Config, cores};
use pangea_llm::{
    config::Config as Shape,
    forward::{Model, Session},
    gguf::ModelFile,
    kernels::Kernels,
    plan::{Placed, Plan},
    pool::Pool,
    weights::Heaps,
};

use crate::{Figure, Figures, reading::read};

pub(crate) const FIGURES: &[(&str, &str)] = &[
    ("llm.decode.1", "tokens a second on 1 thread, against reading the weights"),
    ("llm.decode.2", "tokens a second on 2 threads, against reading the weights"),
    ("llm.remote", "tokens a second with all weights on another node, against all at home"),
    ("llm.llama_cpp.1", "tokens a second on 1 thread, against llama.cpp (--llama-bench)"),
    ("llm.llama_cpp.2", "tokens a second on 2 threads, against llama.cpp (--llama-bench)"),
];

/// The model to run; the bundled one, if it is not set.
pub const MODEL: &str = "PANGEA_BENCH_MODEL";
/// The program `llama-bench`, to be measured by turns with us.
pub const LLAMA_BENCH: &str = "PANGEA_BENCH_LLAMA_BENCH";

const RUNS: usize = 7;
/// Tokens that are decoded in a run.
const TOKENS: u32 = 32;

pub(crate) fn model_file() -> pangea_llm::Result<ModelFile> {
    env::var_os(MODEL).map_or_else(|| Ok(ModelFile::bundled()), ModelFile::open)
}

pub(crate) fn run() -> Figures {
    let cluster = Cluster::join(Config::from_env()?)?;
    let file = model_file()?;
    let shape = Shape::read(&file.parse()?)?;
    let nodes = usize::from(cluster.nodes());
    let home = Plan::with_holders(&file.parse()?, &shape, nodes, 0..1)?;
    let away = Plan::with_holders(&file.parse()?, &shape, nodes, 1..nodes)?;
    let home = Loaded { heaps: Heaps::load(&cluster, &file, &home, "home")?, plan: home };
    let away = Loaded { heaps: Heaps::load(&cluster, &file, &away, "away")?, plan: away };
    let mut figures = Vec::new();
    if cluster.node().number() == 0 {
        for threads in [1, 2] {
            figures.push(decode(&shape, &home, threads)?);
        }
        figures.push(remote(&shape, &home, &away)?);
        if let Some(program) = env::var_os(LLAMA_BENCH) {
            for threads in [1, 2] {
                let llama = || llama_bench(&program.display().to_string(), threads);
                llama()?;
                figures.push(against(&shape, &home, threads, &llama)?);
            }
        }
    }
    cluster.barrier()?;
    Ok(figures)
}

/// A model in some heaps.
struct Loaded {
    heaps: Heaps,
    plan: Plan,
}

impl Loaded {
    fn model<'a>(&'a self, shape: &'a Shape, threads: usize) -> pangea_llm::Result<Model<'a>> {
        let weights = self.heaps.weights(shape, &self.plan)?;
        Ok(Model::new(shape, weights, Kernels::from_env()?, Pool::new(threads)))
    }

    /// The packed matrices that every token reads.
    fn read_for_a_token(&self, shape: &Shape) -> pangea_llm::Result<Vec<&[u8]>> {
        let bytes = self.heaps.matrices()?;
        let read = self.plan.tensors().iter().filter(|tensor| is_read(shape, tensor));
        let pieces = read.flat_map(|tensor| &tensor.pieces);
        Ok(pieces.map(|piece| &bytes[piece.node][piece.place.clone()]).collect())
    }
}

/// The matrices of `plan` that a token reads: all but the embedding, of which it takes a row, where
/// another makes the logits.
fn is_read(shape: &Shape, tensor: &Placed) -> bool {
    let is_matrix = matches!(tensor.shape, pangea_llm::config::Shape::Matrix { .. });
    is_matrix && (shape.tied || tensor.name != "token_embd.weight")
}

fn decode(shape: &Shape, loaded: &Loaded, threads: usize) -> Result<Figure, Box<dyn Error>> {
    let model = loaded.model(shape, threads)?;
    let mut session = model.session(TOKENS as usize + 1)?;
    let (matrices, pool) = (loaded.read_for_a_token(shape)?, Pool::new(threads));
    let name = format!("llm.decode.{threads}");
    let ours = || vec![tokens_per_second(&mut session)];
    let bound = || vec![passes_per_second(&pool, &matrices)];
    Ok(Figure::compare(&name, "tokens/s", RUNS, ours, bound))
}

fn remote(shape: &Shape, home: &Loaded, away: &Loaded) -> Result<Figure, Box<dyn Error>> {
    let (home, away) = (home.model(shape, cores())?, away.model(shape, cores())?);
    let mut here = home.session(TOKENS as usize + 1)?;
    let mut there = away.session(TOKENS as usize + 1)?;
    let ours = || vec![tokens_per_second(&mut there)];
    let bound = || vec![tokens_per_second(&mut here)];
    Ok(Figure::compare("llm.remote", "tokens/s", 3 * RUNS, ours, bound))
}

fn against(
    shape: &Shape,
    loaded: &Loaded,
    threads: usize,
    llama: &dyn Fn() -> Result<f64, Box<dyn Error>>,
) -> Result<Figure, Box<dyn Error>> {
    let model = loaded.model(shape, threads)?;
    let mut session = model.session(TOKENS as usize + 1)?;
    let name = format!("llm.llama_cpp.{threads}");
    let ours = || vec![tokens_per_second(&mut session)];
    // A run of llama.cpp that fails after the first was well is no bound.
    let bound = || vec![llama().unwrap_or(f64::NAN)];
    Ok(Figure::compare(&name, "tokens/s", RUNS, ours, bound))
}

/// Decodes a text from its start.
fn tokens_per_second(session: &mut Session<'_>) -> f64 {
    session.truncate(0);
    // Ids that every vocabulary has; what they mean does not change the work.
    let decode = |session: &mut Session<'_>, id: u32| _ = black_box(session.forward(&[id]));
    decode(session, 1);
    let start = Instant::now();
    (0..TOKENS).for_each(|id| decode(session, id));
    f64::from(TOKENS) / start.elapsed().as_secs_f64()
}

/// How often all of `matrices` can be read in a second, as a token must.
fn passes_per_second(pool: &Pool, matrices: &[&[u8]]) -> f64 {
    let start = Instant::now();
    read(pool, matrices);
    1.0 / start.elapsed().as_secs_f64()
}

/// What `llama-bench` says of the same file and threads.
fn llama_bench(program: &str, threads: usize) -> Result<f64, Box<dyn Error>> {
    let model = env::var(MODEL).map_err(|_| format!("{MODEL}: llama.cpp needs a model file"))?;
    let tokens = TOKENS.to_string();
    let output = Command::new(program)
        .args(["-m", &model, "-t", &threads.to_string(), "-p", "0", "-n", &tokens])
        .args(["-r", "1", "-o", "json"])
        .output()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    let runs: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let speed = runs[0]["avg_ts"].as_f64();
    speed.ok_or_else(|| format!("{program} printed no avg_ts").into())
}
