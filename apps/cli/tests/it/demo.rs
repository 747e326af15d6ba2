//! `pangea demo`.

use pangea_tests::Cables;

use crate::pangea::{Ended, command, run};

#[test]
fn the_demo_writes_the_same_text_on_any_number_of_nodes() {
    let mut texts = Vec::new();
    for nodes in ["1", "2", "3", "5", "8"] {
        let output = run(&["demo", "--nodes", nodes, "--max-tokens", "40"]).success();
        let (text, table) = output.split_once("\n\n").expect("a text and a table");
        texts.push(text.to_owned());
        for row in ["weights at home", "weights remote", "first token", "tokens/s", "4 KiB read"] {
            assert!(table.contains(row), "{table}");
        }
        let rows = table.lines().filter(|line| line.contains("shared memory")).count();
        assert_eq!((rows + 1).to_string(), nodes);
    }
    assert!(texts[0].starts_with("It is a truth universally acknowledged, that"));
    assert!(texts[0].len() > 100);
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
}

#[test]
fn the_demo_writes_the_same_text_over_any_path() {
    let cables = Cables::lay();
    let text = |path: &str, row: &str| {
        let mut command = command(&["demo", "--nodes", "3", "--max-tokens", "40"]);
        let ended = command.env("PANGEA_PATH", path).envs(cables.environment()).output().unwrap();
        let output = Ended::from(ended).success();
        let (text, table) = output.split_once("\n\n").expect("a text and a table");
        assert_eq!(table.matches(row).count(), 2, "{table}");
        text.to_owned()
    };
    let expected = text("shm", "shared memory");
    assert_eq!(text("tcp", "TCP"), expected);
    assert_eq!(text("verbs", "RDMA by rdma_en"), expected);
}

#[test]
fn about_half_of_the_weights_are_on_the_other_of_two_nodes() {
    let output = run(&["demo", "--max-tokens", "1"]).success();
    let mib = |row: &str| -> f64 {
        let line = output.lines().find(|line| line.starts_with(row)).unwrap();
        line.split_whitespace().nth_back(1).unwrap().parse().unwrap()
    };
    let (home, remote) = (mib("weights at home"), mib("weights remote"));
    assert!((0.45..0.55).contains(&(home / (home + remote))), "{output}");
}
