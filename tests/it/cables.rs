//! Two cables between two nodes.

use pangea_tests::Path;

use crate::job::{node, run, succeeds};

#[test]
fn a_memory_over_two_cables_is_the_same() {
    for scenario in ["atomics", "bulk", "frozen", "names"] {
        succeeds(scenario, Path::Striped, &[2]);
    }
}

#[test]
fn a_cable_that_is_pulled_is_done_without() {
    let outcome = run(Path::Striped, 2, || node("pull_stripe"));
    assert!(outcome.failed.is_none(), "{outcome:?}");
    let says = |text: &String| text.contains("carries nothing any more, and is done without");
    assert!(outcome.output.iter().any(says), "{outcome:?}");
}

#[test]
fn a_node_is_lost_with_its_main_cable() {
    let outcome = run(Path::Striped, 2, || node("pull_main"));
    assert_eq!(outcome.failed.map(|ending| ending.code()), Some(1), "{outcome:?}");
    assert!(outcome.output.iter().any(|text| text.contains("was lost")), "{outcome:?}");
}
