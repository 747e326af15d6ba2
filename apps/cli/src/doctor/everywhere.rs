//! What matters on every system: limits, the key file, settings, the firewall.

use std::path::Path;

use pangea::{Config, cores, launch::Key};

use super::{check::Check, machine::Machine, settings};

/// Descriptors that a node of a job of 128 nodes needs: four for each other, and some.
const OPEN_FILES: u64 = 1024;

/// Looks into all of them.
pub(crate) fn checks(machine: &dyn Machine) -> Vec<Check> {
    let mut checks = vec![processor(), memory(), open_files(machine), key_file(machine)];
    checks.extend(settings::checks(machine));
    checks
}

fn processor() -> Check {
    let found = format!("{}, {}", cores(), std::env::consts::ARCH);
    if cores() > 1 {
        return Check::ok("cores", found);
    }
    Check::warning("cores", found, "nodes and the agents that answer them take turns on one core")
}

fn memory() -> Check {
    // What a heap may have at most is what there is.
    let bytes = Config::default().heap_bytes;
    Check::ok("memory", format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)))
}

fn open_files(machine: &dyn Machine) -> Check {
    let name = "open files";
    let answer = machine.run(&["sh", "-c", "ulimit -n"]).unwrap_or_default();
    match answer.trim() {
        "unlimited" => Check::ok(name, "unlimited"),
        text => match text.parse::<u64>() {
            Ok(limit) if limit >= OPEN_FILES => Check::ok(name, format!("at most {limit}")),
            Ok(limit) => {
                let enough = limit.saturating_sub(100) / 4;
                let found = format!("at most {limit}: enough for about {enough} nodes on a host");
                Check::warning(name, found, format!("raise it: ulimit -n {OPEN_FILES}"))
            }
            Err(_) => Check::not_applicable(name, "the limit is not known"),
        },
    }
}

/// The file with the cluster's key, if there is one, as a launcher or a node would read it.
fn key_file(machine: &dyn Machine) -> Check {
    let name = "key file";
    let Some(path) = machine.variable("PANGEA_KEY_FILE") else {
        return Check::not_applicable(name, "PANGEA_KEY_FILE is not set: each job has its own key");
    };
    match Key::from_file(Path::new(&path)) {
        Ok(_) => Check::ok(name, format!("{path}, yours alone")),
        Err(error) => {
            Check::problem(name, error.to_string(), format!("make one: pangea key {path}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::doctor::{check::State, machine::fixture::Fixture};

    #[test]
    fn a_low_limit_on_open_files_is_a_warning_that_says_what_it_is_enough_for() {
        let check = |answer| open_files(&Fixture::new(&[("sh -c ulimit -n", answer)]));
        assert_eq!(check("unlimited\n").state, State::Ok);
        assert_eq!(check("1048576\n").state, State::Ok);
        let low = check("256\n");
        assert_eq!(low.state, State::Warning);
        assert!(low.found.contains("39 nodes"), "{low}");
        assert_eq!(open_files(&Fixture::default()).state, State::NotApplicable);
    }

    #[test]
    fn a_key_file_is_read_as_a_node_would_and_none_is_no_matter() {
        let machine = |path: &str| Fixture::default().set("PANGEA_KEY_FILE", path);
        let path = std::env::temp_dir().join(format!("pangea-doctor-key-{}", std::process::id()));
        let path = path.to_str().unwrap();
        assert_eq!(key_file(&machine(path)).state, State::Problem);
        Key::random().unwrap().write_file(Path::new(path)).unwrap();
        assert_eq!(key_file(&machine(path)).state, State::Ok);
        fs::write(path, "no key").unwrap();
        let check = key_file(&machine(path));
        assert_eq!(check.state, State::Problem);
        assert!(check.remedy.unwrap().contains("pangea key"));
        fs::remove_file(path).unwrap();
        assert_eq!(key_file(&Fixture::default()).state, State::NotApplicable);
    }
}
