//! What a model in the heaps takes, in all nodes together, at its peak.

use std::{
    fs, process,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use pangea::{Cluster, Config, GlobalVec, Placement, cores};
use pangea_llm::{
    config::Config as Shape, forward::Model, kernels::Kernels, plan::Plan, pool::Pool,
    weights::Heaps,
};

use crate::{Figure, Figures, llm::model_file};

pub(crate) const FIGURES: &[(&str, &str)] =
    &[("memory", "peak memory of all nodes together, against the file and the KV cache")];

/// Tokens of the text that is decoded.
const CONTEXT: usize = 512;
const TOKENS: u32 = 16;
/// Between two looks at the memory that is in use.
const TICK: Duration = Duration::from_millis(5);
const MIB: f64 = (1 << 20) as f64;

pub(crate) fn run() -> Figures {
    let cluster = Cluster::join(Config::from_env()?)?;
    let processes = processes(&cluster)?;
    if cluster.node().number() != 0 {
        work(&cluster)?;
        return Ok(Vec::new());
    }
    let is_done = AtomicBool::new(false);
    let (peak, worked) = thread::scope(|scope| {
        let watch = scope.spawn(|| watch(&processes, &is_done));
        let worked = work(&cluster);
        // Relaxed: a look too many changes nothing.
        is_done.store(true, Ordering::Relaxed);
        (watch.join().unwrap_or(0), worked)
    });
    let bound = worked? as f64 / MIB;
    let value = peak as f64 / MIB;
    Ok(vec![Figure::compare("memory", "MiB", 1, || vec![value], || vec![bound])])
}

/// The process of each node.
fn processes(cluster: &Cluster) -> pangea::Result<Vec<u64>> {
    let nodes = usize::from(cluster.nodes());
    if cluster.node().number() == 0 {
        cluster.publish("processes", &cluster.vec::<u64>(nodes, Placement::Here)?)?;
    }
    let shared: GlobalVec<u64> = cluster.lookup("processes")?;
    shared.put(cluster.node().index(), u64::from(process::id()))?;
    cluster.barrier()?;
    let mut processes = vec![0; nodes];
    shared.get_slice(0, &mut processes)?;
    Ok(processes)
}

/// Loads the model and decodes a little; returns the bytes of the file and of the KV cache.
fn work(cluster: &Cluster) -> pangea_llm::Result<u64> {
    let file = model_file()?;
    let shape = Shape::read(&file.parse()?)?;
    let plan = Plan::new(&file.parse()?, &shape, usize::from(cluster.nodes()))?;
    let heaps = Heaps::load(cluster, &file, &plan, "model")?;
    let mut cache = 0;
    if cluster.node().number() == 0 {
        let weights = heaps.weights(&shape, &plan)?;
        let model = Model::new(&shape, weights, Kernels::from_env()?, Pool::new(cores()));
        let mut session = model.session(CONTEXT)?;
        cache = session.cache().bytes();
        for id in 0..TOKENS {
            session.forward(&[id])?;
        }
    }
    cluster.barrier()?;
    Ok((file.len() + cache) as u64)
}

/// The most memory that `processes` have in use together until `is_done`.
fn watch(processes: &[u64], is_done: &AtomicBool) -> u64 {
    let mut peak = 0;
    // Relaxed: see `run`.
    while !is_done.load(Ordering::Relaxed) {
        peak = peak.max(processes.iter().filter_map(|&process| proportional_bytes(process)).sum());
        thread::sleep(TICK);
    }
    peak
}

/// What a process has in use, with its part of what it shares: Linux's proportional set size;
/// `None` where there is none.
fn proportional_bytes(process: u64) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}
