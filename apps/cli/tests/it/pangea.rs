//! Running the command.

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
};

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ended {
    /// What it printed, if all went well.
    pub(crate) fn success(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }

    /// What it said was wrong: one line, exit code 1 or 2, no panic.
    pub(crate) fn error(self) -> String {
        assert!(matches!(self.code, Some(1 | 2)), "{self:?}");
        assert!(self.stderr.starts_with("error: "), "{self:?}");
        assert_eq!(self.stderr.trim_end().lines().count(), 1, "{self:?}");
        self.stderr
    }
}

/// The command, with `arguments`.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pangea"));
    command.args(arguments).stdin(Stdio::null()).env("PANGEA_TIMEOUT", "60");
    command
}

pub(crate) fn run(arguments: &[&str]) -> Ended {
    command(arguments).output().unwrap().into()
}

/// The path of a model that is part of the tests, or of the program.
pub(crate) fn model(name: &str) -> String {
    let llm = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../llm");
    let folders = ["models", "tests/fixtures"].map(|folder| llm.join(folder).join(name));
    let found = folders.into_iter().find(|path| path.exists()).expect("a model of the tests");
    found.into_os_string().into_string().unwrap()
}
