//! What it costs to start and end a job that does nothing.

use std::{
    env,
    process::{Command, Stdio},
    time::Instant,
};

use pangea::{Cluster, Config, Error, Result, launch::Job};

use crate::{Figure, Figures, figure::Samples};

pub(crate) const FIGURES: &[(&str, &str)] = &[(
    "launch",
    "start and end of a 2-node job that does nothing, against the same two processes",
)];

/// Set in the processes that this starts: `join` or `exit`.
pub const CHILD: &str = "PANGEA_BENCH_CHILD";

const RUNS: usize = 15;

pub(crate) fn run() -> Figures {
    let cluster = Cluster::join(Config::from_env()?)?;
    let mut figures = Vec::new();
    if cluster.node().number() == 0 {
        let program = env::current_exe()
            .map_err(|source| Error::Os { call: "finding this program", source })?;
        let command = |what: &str| {
            let mut command = Command::new(&program);
            command.env(CHILD, what).stdin(Stdio::null());
            command
        };
        figures.push(Figure::compare(
            "launch",
            "ms",
            RUNS,
            || {
                milliseconds(|| {
                    _ = Job::start([command("join"), command("join")]).and_then(Job::wait)
                })
            },
            || {
                milliseconds(|| {
                    let children = [command("exit").spawn(), command("exit").spawn()];
                    children.into_iter().flatten().for_each(|mut child| _ = child.wait());
                })
            },
        ));
    }
    cluster.barrier()?;
    Ok(figures)
}

fn milliseconds(job: impl FnOnce()) -> Samples {
    let start = Instant::now();
    job();
    vec![start.elapsed().as_secs_f64() * 1e3]
}

/// The part of a process that was started to do nothing: with us (`join`) or without.
///
/// # Errors
///
/// Where it cannot join.
pub fn do_nothing(what: &str) -> Result {
    if what == "join" {
        Cluster::join(Config::from_env()?)?.barrier()?;
    }
    Ok(())
}
