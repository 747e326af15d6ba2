//! How long it takes to reach a word of another node.

use std::{hint::black_box, time::Instant};

use pangea::{Cluster, Config, FrozenVec, GlobalVec, NodeId, Placement, Result};

use crate::{
    Figure, Figures,
    figure::{Samples, percentile, time},
    pin::pin,
    random::Random,
};

pub(crate) const FIGURES: &[(&str, &str)] = &[
    ("latency.load", "dependent 8-byte loads through a remote slice, against private memory"),
    ("latency.get", "8-byte get by the API, against a raw load"),
    ("latency.put", "8-byte put by the API, against a raw store"),
];

/// Words that fit the second-level cache.
const WORDS: usize = 1 << 15;
/// Operations in a batch.
const BATCH: u32 = 1 << 12;
const BATCHES: usize = 16;
const RUNS: usize = 31;

pub(crate) fn run() -> Figures {
    let cluster = Cluster::join(Config::from_env()?)?;
    pin(cluster.node().index());
    let is_last = cluster.node().number() == cluster.nodes() - 1;
    if is_last {
        cluster.publish("cycle", &cycle(&cluster, Placement::Here)?)?;
        cluster.publish("words", &cluster.vec::<u64>(WORDS, Placement::Here)?)?;
    }
    let mut figures = Vec::new();
    if cluster.node().number() == 0 {
        figures.push(load(&cluster.lookup("cycle")?)?);
        let words: GlobalVec<u64> = cluster.lookup("words")?;
        figures.push(get(&words));
        figures.push(put(&words));
    }
    cluster.barrier()?;
    Ok(figures)
}

/// A frozen vector that leads through itself in random order.
fn cycle(cluster: &Cluster, placement: Placement) -> Result<FrozenVec<u64>> {
    let mut vec = cluster.vec::<u64>(WORDS, placement)?;
    vec.slice_mut(..)?.copy_from_slice(&Random(7).cycle(WORDS));
    vec.freeze()
}

/// Follows the cycle for a batch of steps.
fn chase(cycle: &[u64], at: &mut u64) {
    for _ in 0..BATCH {
        // The index is one of the cycle's: the check costs what it costs in private memory.
        *at = cycle[usize::try_from(*at).expect("an index")];
    }
    black_box(*at);
}

fn load(remote: &FrozenVec<u64>) -> Result<Figure> {
    let remote = remote.slice(..)?;
    let private = remote.to_vec();
    let (mut here, mut there) = (0, 0);
    let ours = || time(BATCHES, BATCH, || chase(remote, &mut there));
    let bound = || time(BATCHES, BATCH, || chase(&private, &mut here));
    Ok(Figure::compare("latency.load", "ns", RUNS, ours, bound))
}

fn get(words: &GlobalVec<u64>) -> Figure {
    let private = vec![1_u64; WORDS];
    let ours = || sweep(|index| words.get(index).unwrap_or(0));
    let bound = || {
        sweep(|index| {
            let word = &raw const private[index];
            // SAFETY: the index was checked; the vector lives longer.
            unsafe { word.read_volatile() }
        })
    };
    Figure::compare("latency.get", "ns", RUNS, ours, bound)
}

fn put(words: &GlobalVec<u64>) -> Figure {
    let mut private = vec![1_u64; WORDS];
    let ours = || {
        sweep(|index| {
            // An error would be a node that is lost; the barrier at the end finds out.
            _ = words.put(index, 5);
            0
        })
    };
    let bound = || {
        sweep(|index| {
            let word = &raw mut private[index];
            // SAFETY: the index was checked; the vector lives longer, and is this closure's alone.
            unsafe { word.write_volatile(5) };
            0
        })
    };
    Figure::compare("latency.put", "ns", RUNS, ours, bound)
}

/// Times an access to each of the first words in turn.
fn sweep(mut access: impl FnMut(usize) -> u64) -> Samples {
    time(BATCHES, BATCH, || {
        let mut sum = 0_u64;
        for index in 0..BATCH as usize {
            sum = sum.wrapping_add(access(black_box(index)));
        }
        black_box(sum);
    })
}

/// How long an access takes, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// Of half of the accesses, at most.
    pub p50: f64,
    /// Of all but one of a hundred, at most.
    pub p99: f64,
}

/// Measures access to memory of `home` as the demo shows it: a dependent 8-byte load, and a read of
/// 4 KiB, at random places of 16 MiB.
///
/// # Errors
///
/// Where the node has no room, or is lost.
pub fn access_latency(cluster: &Cluster, home: NodeId) -> Result<[Latency; 2]> {
    const LEN: usize = 2 << 20;
    const SAMPLES: usize = 4000;
    const STEPS: u32 = 16;
    const PAGE: usize = 512;
    let mut vec = cluster.vec::<u64>(LEN, Placement::On(home))?;
    vec.use_large_pages()?;
    vec.slice_mut(..)?.copy_from_slice(&Random(3).cycle(LEN));
    let vec = vec.freeze()?;
    let words = vec.slice(..)?;
    let mut at = 0;
    let loads = time(SAMPLES, STEPS, || {
        for _ in 0..STEPS {
            at = words[usize::try_from(at).expect("an index")];
        }
    });
    black_box(at);
    let mut random = Random(5);
    let mut page = [0_u64; PAGE];
    let mut pages: Samples = (0..SAMPLES)
        .map(|_| {
            let start = usize::try_from(random.next()).unwrap_or(0) % (LEN / PAGE) * PAGE;
            let begun = Instant::now();
            page.copy_from_slice(&words[start..start + PAGE]);
            black_box(&page);
            begun.elapsed().as_secs_f64() * 1e9
        })
        .collect();
    let mut loads = loads;
    let latency = |samples: &mut Samples| Latency {
        p50: percentile(samples, 50),
        p99: percentile(samples, 99),
    };
    Ok([latency(&mut loads), latency(&mut pages)])
}
