//! A node that is lost without a word, on each kind of site: see the program `losses`.

use std::{
    io::{self, Write},
    process::Command,
};

#[test]
fn survivors_of_a_silent_loss_name_it_and_end() {
    let output = Command::new(env!("CARGO_BIN_EXE_losses")).arg("--check").output().unwrap();
    // Cases that cannot be tried here, past the harness.
    io::stderr().write_all(&output.stderr).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
