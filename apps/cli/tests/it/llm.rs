//! `pangea llm`.

use std::{fs, path::Path};

use pangea_tests::Cables;
use serde_json::Value;

use crate::pangea::{Ended, command, model, run};

fn complete(model: &str, more: &[&str]) -> Value {
    let arguments = [&["llm", "complete", model, "--json"], more].concat();
    serde_json::from_str(&run(&arguments).success()).unwrap()
}

#[test]
fn tokens_and_logits_do_not_depend_on_the_number_of_nodes() {
    for name in ["austen-q8_0.gguf", "llama-h7kv1-hd8-ff100-v323-bf16.gguf"] {
        let model = model(name);
        let prompt =
            ["--prompt-ids", "1,2,3", "--max-tokens", "24", "--ignore-eos", "--top-logits", "5"];
        let alone = complete(&model, &prompt);
        assert_eq!(alone["prompt_ids"], serde_json::json!([1, 2, 3]));
        assert_eq!(alone["ids"].as_array().unwrap().len(), 24);
        assert_eq!(alone["top_logits"].as_array().unwrap().len(), 5);
        assert_eq!(alone["top_logits"][0][0], alone["ids"][0], "greedy takes the likeliest");
        assert_eq!(alone["stop"], "length");
        for nodes in ["2", "3", "4", "5"] {
            let several = complete(&model, &[&prompt[..], &["--nodes", nodes]].concat());
            for field in ["ids", "text", "top_logits"] {
                assert_eq!(several[field], alone[field], "{name} on {nodes} nodes");
            }
        }
    }
}

#[test]
fn tokens_and_logits_do_not_depend_on_the_path() {
    let (model, cables) = (model("austen-q8_0.gguf"), Cables::lay());
    let complete = |path: &str, loss: &str| {
        let prompt = ["-p", "It", "--max-tokens", "24", "--top-logits", "5", "--nodes", "3"];
        let mut command = command(&[&["llm", "complete", &model, "--json"], &prompt[..]].concat());
        command.env("PANGEA_PATH", path).envs(cables.environment());
        command.env("PANGEA_FAKE_TB_LOSS", loss);
        let output = Ended::from(command.output().unwrap()).success();
        let found: Value = serde_json::from_str(&output).unwrap();
        ["ids", "text", "top_logits"].map(|field| found[field].clone())
    };
    let expected = complete("shm", "0");
    assert_eq!(complete("tcp", "0"), expected);
    assert_eq!(complete("verbs", "0"), expected);
    assert_eq!(complete("verbs", "0.01"), expected);
}

#[test]
fn weights_that_the_cache_has_no_room_for_are_an_error_that_says_so() {
    let model = model("austen-q8_0.gguf");
    let mut command = command(&["llm", "complete", &model, "-p", "It", "--nodes", "2"]);
    let ended = command.env("PANGEA_PATH", "tcp").env("PANGEA_CACHE", "64K").output().unwrap();
    let ended = Ended::from(ended);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("set PANGEA_CACHE higher"), "{ended:?}");
}

#[test]
fn nodes_with_different_models_are_told_so() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("different-models");
    fs::create_dir_all(&folder).unwrap();
    let one = model("austen-q8_0.gguf");
    let mut bytes = fs::read(&one).unwrap();
    // The same shapes, and other weights.
    let half = bytes.len() / 2;
    bytes[half..].iter_mut().for_each(|byte| *byte ^= 1);
    fs::write(folder.join("model-1"), bytes).unwrap();
    fs::copy(one, folder.join("model-0")).unwrap();
    let pangea = env!("CARGO_BIN_EXE_pangea");
    let script = format!("exec {pangea} llm complete model-$PANGEA_NODE -p It --max-tokens 5");
    let mut command = command(&["run", "-n", "2", "--", "sh", "-c", &script]);
    let ended = Ended::from(command.current_dir(&folder).output().unwrap());
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let expected = "model-1: node 1 has another model than node 0; give all hosts the same file";
    assert!(ended.stderr.contains(expected), "{ended:?}");
}

#[test]
fn a_seed_gives_the_same_text_again_and_another_seed_another() {
    let model = model("austen-q8_0.gguf");
    let write = |seed: &str| {
        let arguments =
            ["-p", "Emma", "--max-tokens", "20", "--temperature", "0.8", "--top-k", "40"];
        complete(&model, &[&arguments[..], &["--top-p", "0.95", "--seed", seed]].concat())
    };
    assert_eq!(write("1")["text"], write("1")["text"]);
    assert_ne!(write("1")["text"], write("2")["text"]);
}

#[test]
fn a_full_context_ends_the_text_and_says_so() {
    let model = model("austen-q8_0.gguf");
    let full = complete(&model, &["-p", "- x", "--ignore-eos", "--context", "16"]);
    assert_eq!(full["stop"], "context");
    let tokens = |field: &str| full[field].as_array().unwrap().len();
    assert_eq!(tokens("prompt_ids") + tokens("ids"), 17, "the last token need not be read");
}

#[test]
fn text_comes_after_its_prompt() {
    let output = run(&[
        "llm",
        "complete",
        &model("austen-q8_0.gguf"),
        "-p",
        "Mr. Darcy",
        "--max-tokens",
        "8",
    ]);
    let text = output.success();
    assert!(text.starts_with("Mr. Darcy") && text.len() > 15 && text.ends_with('\n'), "{text}");
}

#[test]
fn a_model_is_shown_with_the_places_of_its_tensors() {
    let text = run(&["llm", "inspect", &model("austen-q8_0.gguf"), "--nodes", "3"]).success();
    for part in
        ["architecture     llama", "layers           6", "blk.5.ffn_down.weight", "Q8_0", "node 2:"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let line = text.lines().find(|line| line.starts_with("token_embd.weight")).unwrap();
    let bytes: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert_eq!(bytes[bytes.len() - 3..].iter().sum::<u64>(), 1024 * 192 / 32 * 34);
}

#[test]
fn perplexity_does_not_depend_on_the_number_of_nodes() {
    let text = env!("CARGO_TARGET_TMPDIR").to_owned() + "/text";
    fs::write(&text, "It is a truth universally acknowledged, that a single man").unwrap();
    let model = model("austen-q8_0.gguf");
    let alone = run(&["llm", "perplexity", &model, &text]).success();
    let several = run(&["llm", "perplexity", &model, &text, "--nodes", "3"]).success();
    assert_eq!(alone, several);
    assert!(alone.starts_with("perplexity ") && alone.contains("predictions"), "{alone}");
}
