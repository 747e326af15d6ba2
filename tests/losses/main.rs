//! What becomes of four nodes when one is lost: how soon the others say so, what they spend after
//! that, what is left.
//!
//! `cargo run -p pangea-tests --bin losses` prints a table, `losses TEXT` only of the cases that
//! have the text in their lines; `--check` is for tests: fewer cases, and bounds that hold on a
//! busy machine. It runs the programs `pangea` and `test-node` beside it.

mod case;
mod trace;

use std::{env, process::ExitCode, time::Duration};

use case::{Case, During, Fault, Site};

/// What is wanted.
const WANTED: [(Fault, Duration); 3] = [
    (Fault::Killed, Duration::from_secs(1)),
    (Fault::Stopped, Duration::from_secs(4)),
    (Fault::CutOff, Duration::from_secs(4)),
];
/// What a test asks for.
const CHECKED: Duration = Duration::from_secs(15);
/// Per cent of a core that a node may spend when it has nothing to do, and in a test.
const SPENT: (f64, f64) = (5.0, 50.0);

fn main() -> ExitCode {
    let argument = env::args().nth(1).unwrap_or_default();
    let is_check = argument == "--check";
    let is_wanted = |case: &Case| is_check || case.to_string().contains(&argument);
    println!("| nodes | one is | while the others are in | last to say so | spent | all gone |");
    println!("|---|---|---|---|---|---|");
    let mut code = ExitCode::SUCCESS;
    for case in cases(is_check).into_iter().filter(is_wanted) {
        if let Err(why) = run(&case, is_check) {
            eprintln!("error: {case}: {why}");
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// What is tried: for a test, a seventh of it.
fn cases(is_check: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for site in Site::ALL {
        for fault in Fault::ALL.into_iter().filter(|&fault| site.allows(fault)) {
            for during in During::ALL {
                // Another node each time.
                let victim = u16::try_from(cases.len() % 4).expect("less than four");
                cases.push(Case { site, fault, during, victim });
            }
        }
    }
    // Those among them that take more than a death: a node that is only silent.
    let step = if is_check { 7 } else { 1 };
    cases.into_iter().skip(step - 1).step_by(step).collect()
}

/// Runs a case, and prints a line about it.
fn run(case: &Case, is_check: bool) -> Result<(), String> {
    let Some(found) = case.run()? else { return Ok(()) };
    let wanted = WANTED.iter().find(|(fault, _)| *fault == case.fault);
    let wanted = wanted.map_or(CHECKED, |(_, time)| if is_check { CHECKED } else { *time });
    let may_spend = if is_check { SPENT.1 } else { SPENT.0 };
    let spent = found.spent.map_or("-".to_owned(), |spent| format!("{spent:.2} %"));
    println!("{case} {:.2?} | {spent} | {:.2?} |", found.noticed, found.ended);
    if found.noticed > wanted {
        return Err(format!("it took {:.2?}, not {wanted:.2?}", found.noticed));
    }
    if found.spent.is_some_and(|spent| spent > may_spend) {
        return Err(format!("a node with nothing to do spends {spent}"));
    }
    Ok(())
}
