//! Scenarios in which one node is lost while the others do something with it, told in lines for the
//! program `losses` to read.
//!
//! `node PROCESS` when a node has joined; of a node that has lost another, `lost TIME ERROR` (in
//! microseconds since 1970), and then `spent PERCENT` of a core in the second after that.

use std::{
    env, mem, process, thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use pangea::{Cluster, Error, GlobalVec, NodeId, Placement, Result};

/// Which node is to be lost; else the last.
const VICTIM: &str = "PANGEA_TEST_VICTIM";
/// How long it is watched what a node spends that has lost another.
const AFTER: Duration = Duration::from_secs(1);

pub(crate) fn in_barrier(cluster: &Cluster) -> Result {
    lose(cluster, &|_| cluster.barrier())
}

pub(crate) fn in_gets(cluster: &Cluster) -> Result {
    lose(cluster, &|words| words.get(0).map(drop))
}

pub(crate) fn in_atomics(cluster: &Cluster) -> Result {
    lose(cluster, &|words| words.fetch_add(0, 1).map(drop))
}

/// Does `step`, with words of the node that will be lost, until that fails.
fn lose(cluster: &Cluster, step: &dyn Fn(&GlobalVec<u64>) -> Result) -> Result {
    let victim = env::var(VICTIM).ok().and_then(|number| number.parse().ok());
    let victim = NodeId::new(victim.unwrap_or(cluster.nodes() - 1));
    if cluster.node() == victim {
        cluster.publish("words", &cluster.vec::<u64>(1, Placement::Here)?)?;
    }
    let words = cluster.lookup("words")?;
    cluster.barrier()?;
    println!("node {}", process::id());
    if cluster.node() == victim {
        loop {
            thread::park();
        }
    }
    let error = loop {
        if let Err(error) = step(&words) {
            break error;
        }
    };
    println!("lost {} {error}", micros_since_1970());
    spend();
    match error {
        Error::PeerLost { .. } => Err(error),
        other => panic!("not a loss: {other:?}"),
    }
}

fn micros_since_1970() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()
}

/// Says what this process spends while it has nothing to do.
fn spend() {
    let (start, before) = (Instant::now(), processor_time());
    thread::sleep(AFTER);
    let spent = processor_time() - before;
    println!("spent {:.2}", spent.as_secs_f64() / start.elapsed().as_secs_f64() * 100.0);
}

/// The processor time of this process until now.
fn processor_time() -> Duration {
    // SAFETY: all zero is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: `usage` lives during the call, which fills it.
    let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    assert_eq!(result, 0, "a process may ask what it has used");
    let duration = |time: libc::timeval| {
        let micros = u32::try_from(time.tv_usec).unwrap_or_default();
        Duration::from_secs(time.tv_sec.unsigned_abs()) + micros * Duration::from_micros(1)
    };
    duration(usage.ru_utime) + duration(usage.ru_stime)
}
