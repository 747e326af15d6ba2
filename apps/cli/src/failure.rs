//! How a command fails: a line for the user, and an exit code.

use std::{
    error::Error,
    fmt::{self, Write},
    io::ErrorKind,
    process::ExitCode,
};

/// The result of a command.
pub(crate) type Result<T = ExitCode> = std::result::Result<T, Failure>;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// A mistake in what was typed, or in the environment.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 2 }
    }

    /// Something that went wrong while it ran, in words.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 1 }
    }

    /// Something that went wrong while it ran.
    pub(crate) fn runtime(error: &dyn Error) -> Self {
        Self { message: chain(error), code: 1 }
    }

    /// Prints the line, if there is one; gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        if !self.message.is_empty() {
            eprintln!("error: {}", self.message);
        }
        ExitCode::from(self.code)
    }
}

impl From<pangea::Error> for Failure {
    fn from(error: pangea::Error) -> Self {
        let code = if matches!(error, pangea::Error::Config { .. }) { 2 } else { 1 };
        Self { message: chain(&error), code }
    }
}

impl From<pangea_llm::Error> for Failure {
    fn from(error: pangea_llm::Error) -> Self {
        match error {
            pangea_llm::Error::Cluster(error) => error.into(),
            // Who reads has read enough: no failure.
            pangea_llm::Error::Output(error) if error.kind() == ErrorKind::BrokenPipe => {
                Self { message: String::new(), code: 0 }
            }
            pangea_llm::Error::Output(_) => Self { message: chain(&error), code: 1 },
            error => Self { message: chain(&error), code: 2 },
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The message of an error and of what caused it.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Writing to a string cannot fail.
        _ = write!(message, ": {cause}");
        source = cause.source();
    }
    message
}
