//! The environment variables of Pangea: that there is none which nobody reads, and that each has a
//! value which it may have.

use super::{check::Check, machine::Machine};

const NAME: &str = "settings";

/// What a variable may be set to.
#[derive(Clone, Copy, Debug)]
enum Values {
    /// Anything; whoever reads it says what is wrong.
    Any,
    /// One of these words.
    Words(&'static [&'static str]),
}

/// Those of tests are not looked at.
const OF_TESTS: [&str; 2] = ["PANGEA_FAKE_", "PANGEA_TEST_"];

/// Every other variable that is read somewhere.
const KNOWN: &[(&str, Values)] = &[
    ("PANGEA_ADDRESSES", Values::Any),
    ("PANGEA_BENCH_CHILD", Values::Any),
    ("PANGEA_BENCH_GROUP", Values::Any),
    ("PANGEA_BENCH_LLAMA_BENCH", Values::Any),
    ("PANGEA_BENCH_MODEL", Values::Any),
    ("PANGEA_BENCH_REFERENCE", Values::Any),
    ("PANGEA_CACHE", Values::Any),
    ("PANGEA_COORDINATOR", Values::Any),
    ("PANGEA_HEAP", Values::Any),
    ("PANGEA_HOST", Values::Any),
    ("PANGEA_JOB", Values::Any),
    ("PANGEA_KERNELS", Values::Any),
    ("PANGEA_KEY", Values::Any),
    ("PANGEA_KEY_FILE", Values::Any),
    ("PANGEA_MODELS", Values::Any),
    ("PANGEA_NODE", Values::Any),
    ("PANGEA_NODES", Values::Any),
    ("PANGEA_PATH", Values::Words(&["auto", "shm", "tcp", "verbs"])),
    ("PANGEA_RDMA", Values::Any),
    ("PANGEA_RENDEZVOUS", Values::Any),
    ("PANGEA_REQUIRE", Values::Words(&["rdma"])),
    ("PANGEA_SSH", Values::Any),
    ("PANGEA_TIMEOUT", Values::Any),
    ("PANGEA_TRUSTED_NETWORK", Values::Words(&["0", "1"])),
    ("PANGEA_VERBS", Values::Words(&["rc", "uc"])),
    ("PANGEA_VERBS_LIBRARY", Values::Any),
];

/// Looks at every variable that is set; one check for all that are well.
pub(crate) fn checks(machine: &dyn Machine) -> Vec<Check> {
    let mut variables = machine.variables();
    variables.retain(|(variable, _)| !OF_TESTS.iter().any(|test| variable.starts_with(test)));
    let checks: Vec<Check> =
        variables.iter().filter_map(|(variable, value)| trouble(variable, value)).collect();
    if !checks.is_empty() {
        return checks;
    }
    let names: Vec<_> = variables.iter().map(|(variable, _)| &variable[..]).collect();
    let found = if names.is_empty() { "none set".to_owned() } else { names.join(", ") };
    vec![Check::ok(NAME, found)]
}

fn trouble(variable: &str, value: &str) -> Option<Check> {
    let Some((_, values)) = KNOWN.iter().find(|(known, _)| *known == variable) else {
        let found = format!("{variable} is read by nobody");
        return Some(Check::warning(
            NAME,
            found,
            match nearest(variable) {
                Some(known) => format!("{known} may be meant"),
                None => format!("unset it: unset {variable}"),
            },
        ));
    };
    match values {
        Values::Words(words) if !value.is_empty() && !words.contains(&value) => {
            let found = format!("{variable}={value} means nothing");
            Some(Check::problem(NAME, found, format!("set it to {}", words.join(", "))))
        }
        _ => None,
    }
}

/// The variable that may have been meant: at most two letters are different.
fn nearest(variable: &str) -> Option<&'static str> {
    let distances = KNOWN.iter().map(|(known, _)| (distance(known, variable), *known));
    distances.filter(|(distance, _)| *distance <= 2).min().map(|(_, known)| known)
}

/// How many letters are to be changed, left out or put in to make one word the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    // The distances of what was read of `one` to each beginning of `other`.
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (read, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = read + 1;
        for (at, known) in other.iter().enumerate() {
            let changed = diagonal + usize::from(*known != letter);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{check::State, machine::fixture::Fixture};

    #[test]
    fn a_variable_with_a_typing_error_is_a_warning_that_names_the_right_one() {
        let checks = checks(&Fixture::default().set("PANGEA_HAEP", "1G").set("PANGEA_PATH", "tcp"));
        assert_eq!(checks.len(), 1, "{checks:?}");
        assert_eq!(checks[0].state, State::Warning);
        assert!(checks[0].found.contains("PANGEA_HAEP"), "{checks:?}");
        assert!(checks[0].remedy.as_ref().unwrap().contains("PANGEA_HEAP"), "{checks:?}");
        assert_eq!(nearest("PANGEA_SOMETHING"), None);
    }

    #[test]
    fn a_word_that_means_nothing_is_a_problem_that_lists_those_that_do() {
        let checks = checks(&Fixture::default().set("PANGEA_PATH", "carrier-pigeon"));
        assert_eq!(checks[0].state, State::Problem, "{checks:?}");
        assert!(checks[0].remedy.as_ref().unwrap().contains("auto, shm, tcp, verbs"), "{checks:?}");
    }

    #[test]
    fn what_is_set_well_is_listed() {
        let checks = checks(&Fixture::default().set("PANGEA_KERNELS", "").set("PANGEA_PATH", ""));
        assert_eq!(checks, [Check::ok("settings", "PANGEA_KERNELS, PANGEA_PATH")]);
    }

    #[test]
    fn distances_are_counted_in_letters() {
        for (one, other, letters) in [("", "", 0), ("heap", "haep", 2), ("heap", "hep", 1)] {
            assert_eq!(distance(one, other), letters, "{one} {other}");
            assert_eq!(distance(other, one), letters, "{other} {one}");
        }
    }
}
