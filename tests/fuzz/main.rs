//! Feeds decoders with inputs that are nearly right, and says which one a decoder did not survive.
//!
//! `fuzz [--seconds N | --runs N] [--seed N]`. Every input follows from a seed; the next has the
//! next seed. An input that fails is run again, alone, with `--seed` and `--runs 1`.

mod mutation;

use std::{
    env,
    panic::{self, AssertUnwindSafe},
    process::ExitCode,
    time::{Duration, Instant},
};

use pangea_rdma::{fuzz::TARGETS, sim::Random};

/// What the arguments ask for.
#[derive(Debug)]
struct Plan {
    seed: u64,
    runs: u64,
    time: Duration,
}

impl Plan {
    fn from_args() -> Result<Self, String> {
        let mut plan = Self { seed: 1, runs: u64::MAX, time: Duration::MAX };
        let mut is_bounded = false;
        let mut args = env::args().skip(1);
        while let Some(name) = args.next() {
            let value = args.next().unwrap_or_default();
            let number = value.parse().map_err(|_| format!("{name} {value}: not a number"))?;
            match name.as_str() {
                "--seed" => plan.seed = number,
                "--runs" => plan.runs = number,
                "--seconds" => plan.time = Duration::from_secs(number),
                _ => return Err(format!("{name}: --seed, --runs and --seconds are known")),
            }
            is_bounded |= name != "--seed";
        }
        if !is_bounded {
            plan.time = Duration::from_secs(10);
        }
        Ok(plan)
    }
}

fn main() -> ExitCode {
    let plan = match Plan::from_args() {
        Ok(plan) => plan,
        Err(reason) => {
            eprintln!("fuzz: {reason}");
            return ExitCode::from(2);
        }
    };
    let corpora: Vec<Vec<Vec<u8>>> = TARGETS.iter().map(|target| (target.corpus)()).collect();
    let start = Instant::now();
    let mut runs = 0;
    while runs < plan.runs && start.elapsed() < plan.time {
        let seed = plan.seed.wrapping_add(runs);
        for (target, corpus) in TARGETS.iter().zip(&corpora) {
            let input = mutation::mutate(corpus, &mut Random::new(seed));
            if panic::catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err() {
                let (name, len) = (target.name, input.len());
                eprintln!("fuzz: {name} did not survive {len} bytes: --seed {seed} --runs 1");
                return ExitCode::FAILURE;
            }
        }
        runs += 1;
    }
    println!("{runs} inputs for each of {} decoders in {:.1?}", TARGETS.len(), start.elapsed());
    ExitCode::SUCCESS
}
