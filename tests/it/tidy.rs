//! What no compiler checks: the invariants of docs/architecture.md that can be read off the text.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Every Rust file of the workspace, with its path from the root.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut folders: Vec<PathBuf> =
        ["rdma", "alloc", "dsm", "apps", "benches", "tests"].map(|name| root.join(name)).into();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                files.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(files.len() > 100, "the sources are there");
    files
}

/// Checks that `word` stands only in files that `may` have it.
fn only_in(word: &str, may: impl Fn(&str) -> bool) {
    for (name, text) in sources() {
        let is_this = name == "tests/it/tidy.rs";
        assert!(is_this || may(&name) || !text.contains(word), "{word} in {name}");
    }
}

#[test]
fn files_and_lines_have_their_length() {
    for (name, text) in sources() {
        assert!(text.lines().count() <= 400, "{name} is too long to read");
        let long = text.lines().find(|line| line.chars().count() > 100);
        assert!(long.is_none(), "{name}: {long:?}");
    }
}

#[test]
fn control_messages_alone_know_their_encoding() {
    only_in("bincode", |name| name == "dsm/src/wire.rs");
}

#[test]
fn what_is_modelled_takes_its_atomics_from_the_model() {
    // A mapped word is no part of a model, and tests are none.
    let is_exempt = |name: &str| {
        let modelled = name.starts_with("rdma/src") || name.starts_with("apps/llm/src");
        !modelled
            || name.contains("primitive")
            || name.contains("/mapping")
            || name.contains("tests")
    };
    only_in("std::sync::atomic", is_exempt);
}

#[test]
fn platforms_differ_in_leaf_modules() {
    let leaves = ["bootstrap/host", "descriptor", "mapping", "verbs/sys", "wait"]
        .map(|leaf| format!("rdma/src/{leaf}.rs"));
    let others = [
        "dsm/src/launch.rs",
        "benches/src/handover.rs",
        "benches/src/pin.rs",
        "tests/fake-thunderbolt/src/errno.rs",
    ];
    only_in("target_os", |name| leaves.iter().any(|leaf| leaf == name) || others.contains(&name));
}

#[test]
fn variables_that_are_read_are_known_to_the_doctor() {
    let known = "apps/cli/src/doctor/settings.rs";
    let (_, known) = sources().into_iter().find(|(name, _)| name == known).unwrap();
    for (name, text) in sources().into_iter().filter(|(name, _)| !name.contains("test")) {
        // Between quotes stands what is read.
        for word in text.split('"').filter(|word| word.starts_with("PANGEA_")) {
            let is_name = word.bytes().all(|byte| byte == b'_' || byte.is_ascii_uppercase());
            let is_name = is_name && !word.ends_with('_');
            assert!(!is_name || known.contains(&format!("\"{word}\"")), "{word} in {name}");
        }
    }
}

#[test]
fn layers_know_only_what_is_below() {
    only_in("pangea_rdma", |name| !name.starts_with("alloc") && !name.starts_with("apps"));
    only_in("pangea_llm", |name| name.starts_with("apps") || name.starts_with("benches"));
}
