//! Real vocabularies against the ids that llama.cpp gives, which are in `fixtures/`.

use std::{
    env,
    io::{self, Write},
    path::{Path, PathBuf},
};

use pangea_llm::{
    detokenizer::{Control, Detokenizer},
    gguf::ModelFile,
    tokenizer::{Special, Tokenizer},
};
use serde_json::Value;

/// The file of a model that is not bundled, if its folder is known.
fn fetched(name: &str) -> Option<PathBuf> {
    let folder = env::var_os("PANGEA_MODELS");
    if folder.is_none() {
        // Not by a macro, whose output the harness keeps from who reads.
        let mut stderr = io::stderr();
        writeln!(stderr, "not tested: {name}, as PANGEA_MODELS names no folder").unwrap();
    }
    Some(Path::new(&folder?).join(format!("{name}.gguf")))
}

fn tokenizer(path: &Path) -> Tokenizer {
    let file = ModelFile::open(path).expect("the model is there");
    let gguf = file.parse().expect("the model is sound");
    Tokenizer::from_gguf(&gguf).expect("the vocabulary is sound")
}

/// Texts with their ids, by the name of the model.
fn expected(name: &str) -> Vec<(String, Vec<u32>)> {
    let all: Value = serde_json::from_str(include_str!("fixtures/tokenization.json")).unwrap();
    let id = |id: &Value| u32::try_from(id.as_u64().unwrap()).unwrap();
    let pair = |entry: &Value| {
        let ids = entry["ids"].as_array().unwrap().iter().map(id).collect();
        (entry["text"].as_str().unwrap().to_owned(), ids)
    };
    all[name].as_array().expect("the model is known").iter().map(pair).collect()
}

/// Encodes and decodes the texts of the model `name`.
fn check(name: &str, path: &Path) -> Tokenizer {
    let tokenizer = tokenizer(path);
    for (text, ids) in expected(name) {
        assert_eq!(tokenizer.encode_prompt(&text, Special::Text), ids, "{text:?}");
        assert_eq!(tokenizer.decode(&ids), text);
        let mut detokenizer = Detokenizer::new(&tokenizer, Control::Hide);
        let mut streamed: String = ids.iter().map(|&id| detokenizer.push(id).to_owned()).collect();
        streamed.push_str(detokenizer.finish());
        assert_eq!(streamed, text);
    }
    tokenizer
}

#[test]
fn the_bundled_model_divides_text_as_llama_cpp_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/austen-q8_0.gguf");
    let tokenizer = check("austen-q8_0", &path);
    assert_eq!(tokenizer.ends(), [0]);
    assert_eq!(tokenizer.encode("<|endoftext|>", Special::Parse), [0]);
}

#[test]
fn a_chat_model_divides_text_as_llama_cpp_does() {
    let name = "qwen2.5-coder-0.5b-instruct-q4_k_m";
    let Some(path) = fetched(name) else { return };
    let tokenizer = check(name, &path);
    let turn = tokenizer.encode("<|im_start|>user\nHi<|im_end|>", Special::Parse);
    assert_eq!(turn, [151_644, 872, 198, 13_048, 151_645]);
    assert_eq!(tokenizer.ends(), [151_643, 151_645, 151_662, 151_663, 151_664]);
}

#[test]
fn a_sentencepiece_model_divides_text_as_llama_cpp_does() {
    let name = "gemma-3-270m-q4_k_m";
    let Some(path) = fetched(name) else { return };
    let tokenizer = check(name, &path);
    assert_eq!(tokenizer.ends(), [1, 106]);
    // In its training text this was markup, not the end of a text.
    assert_eq!(tokenizer.encode("</s>", Special::Text), [212]);
}
