//! The forward pass gives llama.cpp's logits, tokens and perplexity for the same file, and the same
//! to the bit however its weights are cut, its prompt is batched, and its work is spread.
//!
//! The large models are taken from the folder that the environment variable `PANGEA_MODELS` names.

mod plain;
mod reference;
mod session;

use std::{
    env,
    io::{self, Write},
    path::{Path, PathBuf},
};

use pangea_llm::{
    forward::{Model, Session},
    kernels::Kernels,
    perplexity,
    pool::Pool,
};

use plain::Plain;
use reference::{Prompt, Reference};

/// How far from llama.cpp a model's results may be.
///
/// Both round the inputs of quantized matrices to 8 bits in the same way, and agree to the last
/// digits that are written down, until the order of a sum turns one rounding over. In a large model
/// some are always turned over: there, a change of any number by 3e-7 of itself moves logits by
/// 0.1. Where weights have 16 bits, llama.cpp rounds the inputs to such numbers, and we do not.
struct Tolerance {
    /// Greedy tokens are compared up to the first step whose two best logits are closer than this.
    margin: f32,
    /// The greatest difference of one of the highest logits.
    logit: f32,
    /// The greatest ratio of the perplexities, less 1.
    perplexity: f64,
}

const F32: Tolerance = Tolerance { margin: 0.01, logit: 1e-3, perplexity: 1e-3 };
const QUANTIZED: Tolerance = Tolerance { margin: 0.1, logit: 0.5, perplexity: 0.01 };
// The fixtures' weights are random: they are sure of what is wrong, with perplexities of 10^5 to
// 10^19, which magnify every difference.
const RANDOM_F16: Tolerance = Tolerance { margin: 0.01, logit: 0.0125, perplexity: 0.01 };
const RANDOM_BF16: Tolerance = Tolerance { margin: 0.01, logit: 0.1, perplexity: 0.02 };
const RANDOM_QUANTIZED: Tolerance = Tolerance { margin: 0.1, logit: 0.1, perplexity: 0.01 };

#[test]
fn tied_llama_in_f16() {
    conforms(&fixture("llama-h4kv2-tied-f16"), &RANDOM_F16);
}

#[test]
fn llama_of_awkward_shape_in_bf16() {
    conforms(&fixture("llama-h7kv1-hd8-ff100-v323-bf16"), &RANDOM_BF16);
}

#[test]
fn llama_with_rope_factors() {
    conforms(&fixture("llama-ropefreqs-llama3"), &RANDOM_F16);
}

#[test]
fn qwen2_with_biases_in_q8_0() {
    conforms(&fixture("qwen2-h14kv2-bias-q8_0"), &RANDOM_QUANTIZED);
}

#[test]
fn qwen3_with_normalised_heads_in_q4_0() {
    conforms(&fixture("qwen3-h4kv2-hd32-qknorm-q4_0"), &RANDOM_QUANTIZED);
}

#[test]
fn the_bundled_model() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    conforms(&models.join("austen-q8_0.gguf"), &QUANTIZED);
}

#[test]
fn the_bundled_model_in_f32() {
    large("austen-f32", &F32);
}

#[test]
fn the_bundled_model_in_q4_0() {
    large("austen-q4_0", &QUANTIZED);
}

#[test]
fn a_real_model_in_mixed_types() {
    large("qwen2.5-coder-0.5b-instruct-q4_k_m", &QUANTIZED);
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.gguf"))
}

fn large(name: &str, tolerance: &Tolerance) {
    let Some(folder) = env::var_os("PANGEA_MODELS") else {
        // Not by a macro, whose output the harness keeps from who reads.
        let mut stderr = io::stderr();
        writeln!(stderr, "not tested: {name}, as PANGEA_MODELS names no folder").unwrap();
        return;
    };
    conforms(&Path::new(&folder).join(format!("{name}.gguf")), tolerance);
}

/// Holds a model file to everything that this suite asks for.
#[track_caller]
fn conforms(path: &Path, tolerance: &Tolerance) {
    let name = path.file_stem().and_then(|name| name.to_str()).expect("a name of UTF-8");
    let reference = Reference::read(name);
    let plain = Plain::load(path, 1);
    let model = model(&plain, 2);
    for prompt in &reference.prompts {
        let mut session = model.session(plain.config().context_len.min(512)).expect("room");
        check_logits(session.forward(&prompt.ids).expect("sound ids"), prompt, tolerance);
        session.truncate(0);
        check_greedy(&mut session, prompt, tolerance);
    }
    check_perplexity(&model, &reference, tolerance);
    check_sameness(path, &reference.prompts.last().expect("there are prompts").ids);
}

fn model(plain: &Plain, threads: usize) -> Model<'_> {
    Model::new(plain.config(), plain.weights(), Kernels::detect(), Pool::new(threads))
}

#[track_caller]
fn check_logits(logits: &[f32], prompt: &Prompt, tolerance: &Tolerance) {
    if prompt.margins[0] >= tolerance.margin {
        assert_eq!(best(logits), prompt.top[0].0, "the most likely token");
    }
    for &(token, expected) in &prompt.top {
        let difference = (logits[token as usize] - expected).abs();
        assert!(difference < tolerance.logit, "token {token}: {difference} from {expected}");
    }
}

#[track_caller]
fn check_greedy(session: &mut Session<'_>, prompt: &Prompt, tolerance: &Tolerance) {
    let sure = prompt.margins.iter().take_while(|&&margin| margin >= tolerance.margin).count();
    let mut next = prompt.ids.clone();
    for (step, &expected) in prompt.greedy[..sure].iter().enumerate() {
        let token = best(session.forward(&next).expect("sound ids"));
        assert_eq!(token, expected, "step {step} of {sure}");
        next = vec![token];
    }
}

#[track_caller]
fn check_perplexity(model: &Model<'_>, reference: &Reference, tolerance: &Tolerance) {
    let mut session = model.session(reference.window).expect("room");
    let found = perplexity::measure(&mut session, &reference.excerpt, reference.window, &|| Ok(()));
    let found = found.expect("sound ids");
    let ratio = (found.mean - reference.nll).exp();
    eprintln!("perplexity {:.4}, {ratio:.5} of llama.cpp's", found.perplexity());
    assert!((ratio - 1.0).abs() < tolerance.perplexity, "{ratio}");
}

/// Weights in 1 to 5 shards, prompts in pieces, and any number of threads give the same bits.
#[track_caller]
fn check_sameness(path: &Path, ids: &[u32]) {
    let expected = all_logits(&Plain::load(path, 1), 1, ids, ids.len());
    for (shards, threads, piece) in [(1, 2, 1), (2, 1, 7), (3, 2, 64), (4, 3, 5), (5, 2, 33)] {
        let logits = all_logits(&Plain::load(path, shards), threads, ids, piece);
        let same = logits.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same, "{shards} shards, {threads} threads, pieces of {piece} tokens");
    }
}

/// The logits after the prompt and after each of a few greedy tokens.
fn all_logits(plain: &Plain, threads: usize, ids: &[u32], piece: usize) -> Vec<f32> {
    let model = model(plain, threads);
    let mut session = model.session(ids.len() + 4).expect("room");
    let mut logits = Vec::new();
    for ids in ids.chunks(piece) {
        logits = session.forward(ids).expect("sound ids").to_vec();
    }
    let mut all = Vec::new();
    for _ in 0..4 {
        all.extend_from_slice(&logits);
        logits = session.forward(&[best(&logits)]).expect("sound ids").to_vec();
    }
    all.extend(logits);
    all
}

fn best(logits: &[f32]) -> u32 {
    let (place, _) = logits
        .iter()
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)))
        .expect("a vocabulary is not empty");
    u32::try_from(place).expect("tokens are numbered by u32")
}
