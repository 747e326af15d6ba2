//! What is wrong is said in one line.

use std::{fs, fs::File, process::Stdio};

use crate::pangea::{Ended, command, model, run};

fn complete(model: &str, more: &[&str]) -> Ended {
    run(&[&["llm", "complete", model, "-p", "x", "--max-tokens", "4"], more].concat())
}

/// A file of the tests with `contents`.
fn file(name: &str, contents: &[u8]) -> String {
    let path = format!("{}/{name}", env!("CARGO_TARGET_TMPDIR"));
    fs::write(&path, contents).unwrap();
    path
}

/// The bundled model with the first `from` in its header replaced by `to`, which is as long.
fn changed(name: &str, from: &[u8], to: &[u8]) -> String {
    let mut bytes = fs::read(model("austen-q8_0.gguf")).unwrap();
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    bytes[at..at + to.len()].copy_from_slice(to);
    file(name, &bytes)
}

#[test]
fn a_file_that_is_no_model_is_named() {
    let missing = "/no/such/model.gguf";
    for nodes in ["1", "2"] {
        assert!(complete(missing, &["--nodes", nodes]).error().contains(missing));
    }
    assert!(complete("/", &[]).error().contains("directory"));
    complete(&file("empty", b""), &[]).error();
    complete(&file("magic", b"GGUF"), &[]).error();
    complete(&file("text", b"Once upon a time there was no model"), &["--nodes", "2"]).error();
}

#[test]
fn a_model_that_is_not_supported_is_described() {
    let architecture = changed("architecture", b"llama", b"lamma");
    assert!(complete(&architecture, &[]).error().contains("lamma"));
    // The type of the first tensor, after its name, two dimensions and their number.
    let mut bytes = fs::read(model("austen-q8_0.gguf")).unwrap();
    let name = b"blk.0.attn_q.weight";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
    bytes[at + name.len() + 4 + 16] = 21;
    let error = complete(&file("quantization", &bytes), &[]).error();
    assert!(error.contains("IQ3_S") && error.contains("Q8_0"), "{error}");
}

#[test]
fn settings_out_of_their_range_are_named() {
    let model = model("austen-q8_0.gguf");
    assert!(complete(&model, &["--temperature", "-1"]).error().contains("temperature"));
    assert!(complete(&model, &["--top-p", "1.5"]).error().contains("top_p"));
    assert!(complete(&model, &["--min-p", "NaN"]).error().contains("min_p"));
    let long = "word ".repeat(600);
    assert!(run(&["llm", "complete", &model, "-p", &long]).error().contains("512"));
    assert!(run(&["llm", "complete", &model, "--prompt-ids", "4000"]).error().contains("4000"));
    assert!(complete(&model, &["-c", "0"]).error().contains("context"));
}

#[test]
fn an_environment_that_makes_no_sense_is_named() {
    for (variable, value) in [
        ("PANGEA_HEAP", "abc"),
        ("PANGEA_HEAP", "-1"),
        ("PANGEA_HEAP", "989560464998400"),
        ("PANGEA_HEAP", "0"),
        ("PANGEA_TIMEOUT", "soon"),
        ("PANGEA_KERNELS", "abacus"),
    ] {
        let mut command = command(&["llm", "complete", &model("austen-q8_0.gguf"), "-p", "x"]);
        let error = Ended::from(command.env(variable, value).output().unwrap()).error();
        assert!(error.contains(variable) && error.contains(value), "{error}");
    }
}

#[test]
fn a_heap_too_small_for_the_model_says_what_is_missing() {
    let mut command = command(&["llm", "complete", &model("austen-q8_0.gguf"), "-p", "x"]);
    let error = Ended::from(command.env("PANGEA_HEAP", "1M").output().unwrap()).error();
    assert!(error.contains("missing") && error.contains("PANGEA_HEAP"), "{error}");
}

#[test]
fn a_full_disk_is_an_error() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = command(&["llm", "complete", &model("austen-q8_0.gguf"), "-p", "x"]);
    let output = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert!(Ended::from(output).error().contains("cannot write"));
}

#[test]
fn a_reader_that_has_read_enough_is_no_error() {
    let mut command = command(&["demo", "--nodes", "2", "--max-tokens", "100"]);
    let mut job = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(job.stdout.take());
    let ended = Ended::from(job.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
}
