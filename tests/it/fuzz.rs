//! Decoders take or refuse whatever they are given; longer runs are made by hand.

use std::process::Command;

#[test]
fn decoders_survive_what_is_nearly_right() {
    let run = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_fuzz")).args(args).output().unwrap();
    let output = run(&["--runs", "5000"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(run(&["--seconds", "many"]).status.code(), Some(2));
}
