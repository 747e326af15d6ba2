//! Whole clusters survive everything, in virtual time; longer runs are made by hand.

use std::process::{Command, Output};

fn chaos(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_chaos")).args(args).output().unwrap()
}

fn succeeds(args: &[&str]) {
    let output = chaos(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_must_hold_does_whatever_befalls_the_nodes() {
    succeeds(&["--runs", "10000"]);
    assert_eq!(chaos(&["--seed", "any"]).status.code(), Some(2));
}

#[test]
fn every_addition_counts_once_over_cables_that_lose_and_double_frames() {
    succeeds(&["--atomics", "1000000"]);
}
