//! What llama.cpp gave for a model: the files in `reference/`, whose README says how they came.

use std::{fs, path::Path};

use serde_json::Value;

/// llama.cpp's outputs for one model file.
pub(crate) struct Reference {
    pub(crate) prompts: Vec<Prompt>,
    /// The ids of a text, which is read in windows of `window` tokens.
    pub(crate) excerpt: Vec<u32>,
    pub(crate) window: usize,
    /// The mean surprise of the excerpt's tokens, in nats.
    pub(crate) nll: f64,
}

/// A prompt and what followed it.
pub(crate) struct Prompt {
    pub(crate) ids: Vec<u32>,
    /// The highest logits after the prompt, the highest first.
    pub(crate) top: Vec<(u32, f32)>,
    /// The most likely token at each step.
    pub(crate) greedy: Vec<u32>,
    /// How much likelier than the second it was.
    pub(crate) margins: Vec<f32>,
}

impl Reference {
    pub(crate) fn read(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fidelity/reference");
        let text = fs::read_to_string(folder.join(format!("{name}.json"))).expect("it is there");
        let json: Value = serde_json::from_str(&text).expect("it is JSON");
        let excerpt = &json["excerpt"];
        Self {
            prompts: array(&json["prompts"]).iter().map(Prompt::new).collect(),
            excerpt: ids(&excerpt["ids"]),
            window: usize::try_from(excerpt["window"].as_u64().expect("a number")).expect("small"),
            nll: excerpt["nll"].as_f64().expect("a number"),
        }
    }
}

impl Prompt {
    fn new(json: &Value) -> Self {
        let top = |pair: &Value| (id(&pair[0]), float(&pair[1]));
        Self {
            ids: ids(&json["ids"]),
            top: array(&json["top"]).iter().map(top).collect(),
            greedy: ids(&json["greedy"]),
            margins: array(&json["margins"]).iter().map(float).collect(),
        }
    }
}

fn array(json: &Value) -> &[Value] {
    json.as_array().expect("an array")
}

fn ids(json: &Value) -> Vec<u32> {
    array(json).iter().map(id).collect()
}

fn id(json: &Value) -> u32 {
    u32::try_from(json.as_u64().expect("a number")).expect("an id")
}

#[expect(clippy::cast_possible_truncation, reason = "the numbers were written as f32")]
fn float(json: &Value) -> f32 {
    json.as_f64().expect("a number") as f32
}
