//! What a node that waits costs its machine.

use std::{
    thread,
    time::{Duration, Instant},
};

use pangea::{Cluster, Config};

use crate::{Figure, Figures, figure::Samples};

pub(crate) const FIGURES: &[(&str, &str)] = &[(
    "idle",
    "processor time of a node that waits in a barrier, in percent of 10 s; at most 0.5",
)];

const TIME: Duration = Duration::from_secs(10);
/// The limit that stands in the place of a bound: percent.
const LIMIT: f64 = 0.5;

pub(crate) fn run() -> Figures {
    let cluster = Cluster::join(Config::from_env()?)?;
    let last = cluster.nodes() - 1;
    if cluster.node().number() == last {
        // The others wait in the barrier for as long; then this one reads what they used.
        thread::sleep(TIME + TIME / 10);
    }
    let (start, before) = (Instant::now(), processor_time());
    cluster.barrier()?;
    let used = (processor_time() - before).as_secs_f64() / start.elapsed().as_secs_f64() * 100.0;
    cluster.barrier()?;
    let samples = |value: f64| -> Samples { vec![value] };
    let figure = Figure::compare("idle", "%", 1, || samples(used), || samples(LIMIT));
    Ok(if cluster.node().number() == 0 { vec![figure] } else { Vec::new() })
}

/// What this process has used, in all its threads and in the kernel.
fn processor_time() -> Duration {
    // SAFETY: all zero is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` lives during the call, which fills it.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let time = |time: libc::timeval| {
        Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
            + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}
