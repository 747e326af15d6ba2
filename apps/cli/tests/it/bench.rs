//! `pangea bench`.

use crate::pangea::run;

#[test]
fn every_figure_is_listed_and_measured_figures_are_json() {
    let list = run(&["bench", "--list"]).success();
    for name in ["latency.load", "atomics.fetch_add", "message.awake", "barrier", "llm.decode.1"] {
        assert!(list.lines().any(|line| line.starts_with(name)), "{name}: {list}");
    }
    let output = run(&["bench", "--json", "latency.get", "atomics"]).success();
    let figures: Vec<serde_json::Value> =
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = figures.iter().map(|figure| figure["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["latency.get", "atomics.fetch_add", "atomics.compare_exchange"]);
    for figure in &figures {
        for number in ["value", "bound", "ratio", "p50", "p99"] {
            assert!(figure[number].as_f64().unwrap() > 0.0, "{figure}");
        }
        assert!(figure["p50"].as_f64() <= figure["p99"].as_f64(), "{figure}");
        assert!(figure["runs"].as_u64().unwrap() > 0 && figure["unit"] == "ns", "{figure}");
    }
}

#[test]
fn an_unknown_figure_is_an_error_that_lists_the_groups() {
    let error = run(&["bench", "nothing"]).error();
    assert!(error.contains("'nothing'") && error.contains("latency"), "{error}");
}
