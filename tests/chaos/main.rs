//! Runs whole clusters in virtual time while everything goes wrong, and checks what must hold.
//!
//! `chaos [--seconds N | --runs N | --atomics N] [--seed N]`. A run follows from a seed; the next
//! has the next seed. A run that fails is run again, alone, with `--seed` and `--runs 1`.
//! `--atomics` has nodes add to one word as often over cables that lose, double and damage frames.

mod atomics;
mod fate;
mod ledger;
mod program;
mod run;

use std::{
    env,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use self::run::Tally;

/// What the arguments ask for.
#[derive(Debug)]
struct Plan {
    seed: u64,
    runs: u64,
    time: Duration,
    atomics: Option<u64>,
}

impl Plan {
    fn from_args() -> Result<Self, String> {
        let mut plan = Self { seed: 1, runs: u64::MAX, time: Duration::MAX, atomics: None };
        let mut is_bounded = false;
        let mut args = env::args().skip(1);
        while let Some(name) = args.next() {
            let value = args.next().unwrap_or_default();
            let number = value.parse().map_err(|_| format!("{name} {value}: not a number"))?;
            match name.as_str() {
                "--seed" => plan.seed = number,
                "--runs" => plan.runs = number,
                "--seconds" => plan.time = Duration::from_secs(number),
                "--atomics" => plan.atomics = Some(number),
                _ => return Err(format!("{name}: --seed, --runs, --seconds, --atomics are known")),
            }
            is_bounded |= name != "--seed";
        }
        if !is_bounded {
            plan.time = Duration::from_secs(10);
        }
        Ok(plan)
    }
}

/// Says which seed failed, for it to be run again alone.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("chaos: this was seed {}; run it again with --seed {0} --runs 1", self.0);
        }
    }
}

fn main() -> ExitCode {
    let plan = match Plan::from_args() {
        Ok(plan) => plan,
        Err(reason) => {
            eprintln!("chaos: {reason}");
            return ExitCode::from(2);
        }
    };
    if let Some(count) = plan.atomics {
        let _seed = Seed(plan.seed);
        let frames = atomics::run(plan.seed, count);
        println!("{count} additions in {frames} events, each counted once");
        return ExitCode::SUCCESS;
    }
    let (memories, start, mut tally) = (run::memories(), Instant::now(), Tally::default());
    while tally.runs < plan.runs && start.elapsed() < plan.time {
        let seed = Seed(plan.seed.wrapping_add(tally.runs));
        run::run(seed.0, &memories, &mut tally);
    }
    let Tally { runs, events, losses, renewals } = tally;
    println!("{runs} runs with {events} events, {losses} losses, {renewals} renewals: all well");
    ExitCode::SUCCESS
}
