//! What a machine can be asked: its files and its commands.
//!
//! Checks ask through a trait, so that those for a Mac run, and are tested, anywhere. What was
//! asked of the machine at hand is remembered for the report.

mod child;
#[cfg(test)]
pub(crate) mod fixture;

use std::{cell::RefCell, env, ffi::OsString, fs, time::Duration};

use serde::Serialize;

/// A command that has not ended by then hangs: those that ask a driver may, and are killed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of an answer that are read: a command may print without end.
const ANSWER_LEN_MAX: u64 = 1 << 20;

/// What a command printed.
pub(crate) type Answer = Result<String, Trouble>;

/// Why a command printed nothing of use.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Trouble {
    /// There is no such program.
    Missing,
    /// It ended badly, with these words.
    Failed(String),
    /// It did not end.
    Hung,
}

impl Trouble {
    /// The trouble in words.
    pub(crate) fn found(&self, command: &str) -> String {
        match self {
            Self::Missing => format!("there is no {command}"),
            Self::Failed(words) if words.trim().is_empty() => format!("{command} failed"),
            Self::Failed(words) => format!("{command}: {}", words.trim()),
            Self::Hung => format!("{command} did not end within {} s", TIMEOUT.as_secs()),
        }
    }
}

/// A machine that answers.
pub(crate) trait Machine {
    /// The text of a file; `None` where there is none that can be read.
    fn read(&self, path: &str) -> Option<String>;
    /// The names in a folder, in order; none where there is no such folder.
    fn list(&self, folder: &str) -> Vec<String>;
    /// What `command`, a program and its arguments, prints.
    fn run(&self, command: &[&str]) -> Answer;
    /// The environment variables that are meant for Pangea, in order.
    fn variables(&self) -> Vec<(String, String)>;

    /// The value of one of them, if it is set to something.
    fn variable(&self, name: &str) -> Option<String> {
        let mut variables = self.variables().into_iter();
        variables.find(|(known, value)| known == name && !value.is_empty()).map(|(_, value)| value)
    }
}

/// A question, and what the machine said.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Asked {
    pub(crate) question: String,
    pub(crate) answer: String,
}

/// The machine that this program runs on.
#[derive(Debug, Default)]
pub(crate) struct ThisMachine {
    asked: RefCell<Vec<Asked>>,
}

impl ThisMachine {
    /// All that was asked, and the answers.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.borrow().clone()
    }

    fn remember(&self, question: String, answer: &str) {
        let mut asked = self.asked.borrow_mut();
        if asked.iter().all(|known| known.question != question) {
            asked.push(Asked { question, answer: answer.to_owned() });
        }
    }
}

impl Machine for ThisMachine {
    fn read(&self, path: &str) -> Option<String> {
        let text = fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        self.remember(path.to_owned(), text.as_deref().unwrap_or("(cannot be read)"));
        text
    }

    fn list(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        self.remember(format!("{folder}/"), &names.join(" "));
        names
    }

    fn run(&self, command: &[&str]) -> Answer {
        let answer = child::run(command, TIMEOUT);
        let question = command.join(" ");
        match &answer {
            Ok(text) => self.remember(question, text),
            Err(trouble) => self.remember(question, &format!("({})", trouble.found(command[0]))),
        }
        answer
    }

    fn variables(&self) -> Vec<(String, String)> {
        let text = |value: OsString| value.to_string_lossy().into_owned();
        let all = env::vars_os().map(|(name, value)| (text(name), text(value)));
        let mut ours: Vec<_> = all.filter(|(name, _)| name.starts_with("PANGEA_")).collect();
        ours.sort_unstable();
        ours
    }
}
