//! `--report`: what a user sends us. All checks and all that was asked, as text and as JSON,
//! without what is nobody's business.

mod redact;

use std::{
    env::{self, consts},
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;

use self::redact::Redactor;
use super::{
    check::Check,
    machine::{Asked, Machine, ThisMachine},
};
use crate::failure::{Failure, Result};

/// A report.
#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    system: String,
    checks: Vec<Check>,
    asked: Vec<Asked>,
}

/// Writes the report of what `machine` was asked into `folder`; returns where its text is.
pub(super) fn write(folder: &Path, checks: &[Check], machine: &ThisMachine) -> Result<PathBuf> {
    let redactor = redactor(machine);
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        system: format!("{} {}", consts::OS, consts::ARCH),
        checks: checks.iter().map(|check| redact_check(&redactor, check)).collect(),
        asked: machine.asked().iter().map(|asked| redact_asked(&redactor, asked)).collect(),
    };
    let json = serde_json::to_string_pretty(&report);
    let json = json.map_err(|error| Failure::runtime(&error))?;
    let path = folder.join("pangea-report.txt");
    for (path, text) in [(&path, text(&report)), (&path.with_extension("json"), json)] {
        fs::write(path, text).map_err(|error| {
            Failure::usage(format!("cannot write the report {}: {error}", path.display()))
        })?;
    }
    Ok(path)
}

/// Knows the names of the user and of this machine, and the keys.
fn redactor(machine: &dyn Machine) -> Redactor {
    let mut redactor = Redactor::default();
    let home = env::var("HOME").unwrap_or_default();
    let home = home.rsplit('/').next().unwrap_or_default().to_owned();
    for user in
        [env::var("USER").unwrap_or_default(), env::var("LOGNAME").unwrap_or_default(), home]
    {
        redactor.hide(&user, "<user>");
    }
    let host = machine.run(&["hostname"]).unwrap_or_default();
    let host = host.trim();
    redactor.hide(host, "<host>");
    redactor.hide(host.split('.').next().unwrap_or_default(), "<host>");
    for key in ["PANGEA_KEY", "PANGEA_JOB"] {
        redactor.hide(&machine.variable(key).unwrap_or_default(), "<key>");
    }
    redactor
}

fn redact_check(redactor: &Redactor, check: &Check) -> Check {
    Check {
        name: check.name.clone(),
        state: check.state,
        found: redactor.redact(&check.found),
        remedy: check.remedy.as_ref().map(|remedy| redactor.redact(remedy)),
    }
}

fn redact_asked(redactor: &Redactor, asked: &Asked) -> Asked {
    Asked { question: redactor.redact(&asked.question), answer: redactor.redact(&asked.answer) }
}

fn text(report: &Report) -> String {
    let mut text = format!("pangea {} on {}\n\n", report.version, report.system);
    for check in &report.checks {
        text += &format!("{check}\n");
    }
    for Asked { question, answer } in &report.asked {
        text += &format!("\n--- {question}\n{}\n", answer.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_checks_and_answers_and_no_names() {
        let folder = env::temp_dir().join(format!("pangea-report-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let machine = ThisMachine::default();
        machine.run(&["echo", "at", "192.168.7.9"]).unwrap();
        machine.read("/no/such/file");
        let checks = [Check::problem("a", "b", "c 10.0.0.7")];
        let path = write(&folder, &checks, &machine).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for wanted in ["PROBLEM", "c 10.0.0.x", "--- echo at 192.168.7.x", "(cannot be read)"] {
            assert!(text.contains(wanted), "{wanted} in {text}");
        }
        assert!(!text.contains("192.168.7.9"), "{text}");
        let json = fs::read_to_string(path.with_extension("json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["checks"][0]["state"], "problem");
        fs::remove_dir_all(folder).unwrap();
    }
}
