//! A machine of which only some answers are known.

use std::collections::BTreeMap;

use super::{Answer, Machine, Trouble};

/// Answers by question: a path, or the words of a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fixture {
    answers: BTreeMap<String, Answer>,
    variables: Vec<(String, String)>,
}

impl Fixture {
    pub(crate) fn new(answers: &[(&str, &str)]) -> Self {
        answers.iter().fold(Self::default(), |fixture, (question, answer)| {
            fixture.with(question, Ok((*answer).to_owned()))
        })
    }

    pub(crate) fn with(mut self, question: &str, answer: Answer) -> Self {
        self.answers.insert(question.to_owned(), answer);
        self
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl Machine for Fixture {
    fn read(&self, path: &str) -> Option<String> {
        self.answers.get(path)?.clone().ok()
    }

    fn list(&self, folder: &str) -> Vec<String> {
        let prefix = format!("{folder}/");
        let inside = self.answers.keys().filter_map(|path| path.strip_prefix(&prefix));
        let mut names: Vec<String> =
            inside.filter_map(|path| path.split('/').next()).map(str::to_owned).collect();
        names.dedup();
        names
    }

    fn run(&self, command: &[&str]) -> Answer {
        self.answers.get(&command.join(" ")).cloned().unwrap_or(Err(Trouble::Missing))
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.variables.clone()
    }
}
