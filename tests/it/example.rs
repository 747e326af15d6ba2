//! The example of README.md.

use std::{env, process::Command};

use pangea_tests::Path;

use crate::job::run;

fn example() -> Command {
    // `cargo test --workspace` builds examples beside the tests' own folder.
    let tests = env::current_exe().unwrap();
    let built = tests.parent().unwrap().parent().unwrap();
    Command::new(built.join("examples/squares"))
}

#[test]
fn the_example_of_the_readme_runs_on_any_number_of_nodes() {
    let jobs = [1, 2, 4].map(|nodes| (Path::Shm, nodes)).into_iter();
    for (path, nodes) in jobs.chain(Path::WIRES.map(|path| (path, 4))) {
        let outcome = run(path, nodes, example);
        assert!(outcome.failed.is_none(), "{outcome:?}");
        for (node, text) in outcome.output.iter().enumerate() {
            assert_eq!(text, &format!("node {node} of {nodes}: 332833500\n"));
        }
    }
    let alone = example().output().unwrap();
    assert_eq!(String::from_utf8_lossy(&alone.stdout), "node 0 of 1: 332833500\n");
}
