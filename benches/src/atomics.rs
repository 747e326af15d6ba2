//! What an atomic operation on another node's word costs.

use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering},
};

use pangea::{Cluster, Config, GlobalVec, Placement};

use crate::{Figure, Figures, figure::time, pin::pin};

pub(crate) const FIGURES: &[(&str, &str)] = &[
    ("atomics.fetch_add", "fetch-add on another node's word, against a raw atomic"),
    ("atomics.compare_exchange", "compare-exchange on another node's word, against a raw atomic"),
];

const BATCH: u32 = 4096;
const BATCHES: usize = 16;
const RUNS: usize = 31;

pub(crate) fn run() -> Figures {
    let cluster = Cluster::join(Config::from_env()?)?;
    pin(cluster.node().index());
    if cluster.node().number() == cluster.nodes() - 1 {
        cluster.publish("words", &cluster.vec::<u64>(8, Placement::Here)?)?;
    }
    let mut figures = Vec::new();
    if cluster.node().number() == 0 {
        let words: GlobalVec<u64> = cluster.lookup("words")?;
        let raw = Box::new(AtomicU64::new(0));
        figures.push(Figure::compare(
            "atomics.fetch_add",
            "ns",
            RUNS,
            || repeat(|| words.fetch_add(3, 1).unwrap_or(0)),
            || repeat(|| raw.fetch_add(1, Ordering::SeqCst)),
        ));
        figures.push(Figure::compare(
            "atomics.compare_exchange",
            "ns",
            RUNS,
            || repeat(|| words.compare_exchange(4, 0, 0).unwrap_or(0)),
            || {
                let order = Ordering::SeqCst;
                repeat(|| raw.compare_exchange(0, 0, order, order).unwrap_or(0))
            },
        ));
    }
    cluster.barrier()?;
    Ok(figures)
}

fn repeat(operation: impl Fn() -> u64) -> Vec<f64> {
    time(BATCHES, BATCH, || {
        for _ in 0..BATCH {
            black_box(operation());
        }
    })
}
