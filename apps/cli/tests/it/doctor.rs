//! `pangea doctor`.

use std::fs;

use crate::pangea::{Ended, command, run};

#[test]
fn every_check_has_a_state_and_what_is_wrong_has_a_remedy() {
    let ended = run(&["doctor", "--json"]);
    let checks: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let checks = checks.as_array().unwrap();
    let states: Vec<_> = checks.iter().map(|check| check["state"].as_str().unwrap()).collect();
    assert!(states.len() > 10, "{ended:?}");
    for check in checks {
        let is_wrong = ["warning", "problem"].contains(&check["state"].as_str().unwrap());
        assert_eq!(check["remedy"].is_string(), is_wrong, "{check}");
    }
    let code = if states.contains(&"problem") { 1 } else { 0 };
    assert_eq!(ended.code, Some(code), "{ended:?}");
}

#[test]
fn a_problem_is_told_with_its_remedy_and_exit_code_1() {
    let ended: Ended = command(&["doctor"]).env("PANGEA_HEAP", "many").output().unwrap().into();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stdout.contains("PROBLEM  heap and timeout     PANGEA_HEAP"), "{ended:?}");
    assert!(ended.stdout.contains("-> see docs/running.md"), "{ended:?}");
}

#[test]
fn a_report_says_where_it_is_and_names_nobody() {
    let folder = env!("CARGO_TARGET_TMPDIR").to_owned() + "/report";
    fs::create_dir_all(&folder).unwrap();
    let mut doctor = command(&["doctor", "--report"]);
    doctor.current_dir(&folder).env("PANGEA_KEY", "0123abcd");
    let ended: Ended = doctor.output().unwrap().into();
    assert!(ended.stderr.contains("pangea-report.txt"), "{ended:?}");
    let text = fs::read_to_string(folder.clone() + "/pangea-report.txt").unwrap();
    let json = fs::read_to_string(folder + "/pangea-report.json").unwrap();
    assert!(text.contains("--- sh -c ulimit -n"), "{text}");
    for text in [text, json] {
        assert!(!text.contains("0123abcd"), "{text}");
    }
}

#[test]
fn two_nodes_of_this_host_prove_that_they_share_memory() {
    let ended: Ended = command(&["doctor"]).env("PANGEA_PATH", "tcp").output().unwrap().into();
    let line = ended.stdout.lines().find(|line| line.contains("shared memory  ")).unwrap();
    assert!(line.starts_with("ok ") && line.contains("on the same host"), "{line}");
    assert!(line.contains("GB/s"), "{line}");
    let failing: Ended = command(&["doctor"]).env("TMPDIR", "/no/such").output().unwrap().into();
    assert_eq!(failing.code, Some(1), "{failing:?}");
    let line = failing.stdout.lines().find(|line| line.contains("shared memory  ")).unwrap();
    assert!(line.starts_with("PROBLEM") && line.contains("/no/such"), "{line}");
}
