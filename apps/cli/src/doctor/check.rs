//! What a check found, and what to do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a matter stands.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// As it should be.
    Ok,
    /// Works, but slower, or with less, than it could.
    Warning,
    /// Something that is wanted does not work.
    Problem,
    /// Does not matter on this machine.
    NotApplicable,
}

/// A matter that was looked into.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) state: State,
    /// What there is, in a few words.
    pub(crate) found: String,
    /// What to do, where there is something to do.
    pub(crate) remedy: Option<String>,
}

impl Check {
    pub(crate) fn ok(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Ok, found: found.into(), remedy: None }
    }

    pub(crate) fn not_applicable(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self { state: State::NotApplicable, ..Self::ok(name, found) }
    }

    pub(crate) fn warning(
        name: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let remedy = Some(remedy.into());
        Self { state: State::Warning, remedy, ..Self::ok(name, found) }
    }

    pub(crate) fn problem(
        name: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { state: State::Problem, ..Self::warning(name, found, remedy) }
    }
}

/// A line, and below it the remedy.
impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Problem => "PROBLEM",
            State::NotApplicable => "-",
        };
        write!(f, "{state:<8} {:<20} {}", self.name, self.found)?;
        match &self.remedy {
            Some(remedy) => write!(f, "\n{:29} -> {remedy}", ""),
            None => Ok(()),
        }
    }
}
