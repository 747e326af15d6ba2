//! The list of habits in `src/lib.rs` is true as long as each has its test.

use std::{collections::BTreeSet, fs, path::Path};

/// Words in back quotes that may name a test.
fn names(text: &str) -> BTreeSet<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|word| word.split('_').count() > 3).collect()
}

#[test]
fn each_habit_that_is_listed_has_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list = fs::read_to_string(root.join("src/lib.rs")).unwrap();
    let (_, list) = list.split_once("# Habits").unwrap();
    let (list, _) = list.split_once("mod abi;").unwrap();
    let names = names(list);
    assert!(names.len() > 25, "{names:?}");
    let files = fs::read_dir(root.join("tests/it")).unwrap();
    let tests: String =
        files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    for name in names {
        assert!(tests.contains(&format!("#[test]\nfn {name}()")), "{name}");
    }
}
