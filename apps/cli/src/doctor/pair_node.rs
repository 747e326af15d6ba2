//! `pangea doctor --pair-node`: one of the two nodes that prove the path between them.
//!
//! By turns each reads and writes the other's memory: every byte is checked, words and bulk are
//! timed. Node 0 prints what both have found.

use std::{
    process::ExitCode,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use pangea::{Cluster, Config, GlobalVec, NodeId, Placement};
use serde::{Deserialize, Serialize};

use crate::{
    failure::{Failure, Result},
    output,
};

/// Words of each node's memory: 1 MiB.
const WORDS: usize = 1 << 17;
/// Words that are read and written one by one.
const SINGLES: usize = 2000;
/// How often the whole is written and read.
const ROUNDS: u64 = 16;

/// What two nodes have found.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Proof {
    /// How node 0 reaches node 1.
    pub(super) path: String,
    /// As node 0 and as node 1 have found it.
    pub(super) directions: [Direction; 2],
    /// Seconds that the clock of node 1 is ahead of that of node 0.
    pub(super) clock_ahead_s: f64,
}

/// What one node has found of the other's memory.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct Direction {
    /// Microseconds to read a word: of half of them at most, and of all but one of a hundred.
    pub(super) get_p50_us: f64,
    pub(super) get_p99_us: f64,
    /// Microseconds to write a word.
    pub(super) put_p50_us: f64,
    pub(super) put_p99_us: f64,
    /// Bytes in a second, in parts of 1 MiB.
    pub(super) get_bytes_per_s: f64,
    pub(super) put_bytes_per_s: f64,
    /// Words that were not what was written.
    pub(super) wrong_words: f64,
}

impl Direction {
    /// Its figures, as words that can be written to another's memory.
    fn to_words(self) -> [u64; 7] {
        [
            self.get_p50_us,
            self.get_p99_us,
            self.put_p50_us,
            self.put_p99_us,
            self.get_bytes_per_s,
            self.put_bytes_per_s,
            self.wrong_words,
        ]
        .map(f64::to_bits)
    }

    fn from_words(words: [u64; 7]) -> Self {
        let [get_p50_us, get_p99_us, put_p50_us, put_p99_us, get, put, wrong_words] =
            words.map(f64::from_bits);
        let (get_bytes_per_s, put_bytes_per_s) = (get, put);
        Self {
            get_p50_us,
            get_p99_us,
            put_p50_us,
            put_p99_us,
            get_bytes_per_s,
            put_bytes_per_s,
            wrong_words,
        }
    }
}

/// Proves the path, as the node that the environment says.
pub(super) fn run() -> Result {
    let cluster = Cluster::join(Config::from_env()?)?;
    if cluster.nodes() != 2 {
        return Err(Failure::usage("--pair-node is for jobs of two nodes"));
    }
    let own = cluster.node();
    let other = NodeId::new(1 - own.number());
    cluster.publish(&name(own), &cluster.vec::<u64>(WORDS, Placement::Here)?)?;
    let (mine, theirs) = (cluster.lookup(&name(own))?, cluster.lookup(&name(other))?);
    let clock_ahead_s = compare_clocks(&cluster, &theirs, &mine)?;
    let mut found = Direction::default();
    for turn in NodeId::all(2) {
        if own == turn {
            found = measure(&theirs)?;
        }
        cluster.barrier()?;
        if own != turn {
            // What the other has written last, as it has arrived here.
            found.wrong_words += wrong_words(&mine, ROUNDS)?;
        }
        cluster.barrier()?;
    }
    if own.number() == 1 {
        theirs.put_slice(0, &found.to_words())?;
    }
    cluster.barrier()?;
    if own.number() == 0 {
        let mut words = [0; 7];
        mine.get_slice(0, &mut words)?;
        let directions = [found, Direction::from_words(words)];
        let proof = Proof {
            path: format!("{}: {}", cluster.path(other).name, cluster.path(other).reason),
            directions,
            clock_ahead_s,
        };
        let json = serde_json::to_string(&proof).map_err(|error| Failure::runtime(&error))?;
        output::write(&(json + "\n"))?;
    }
    cluster.barrier()?;
    Ok(ExitCode::SUCCESS)
}

fn name(node: NodeId) -> String {
    format!("memory of {node}")
}

/// Tells the other the time; the difference is that of the clocks, and of leaving a barrier.
fn compare_clocks(
    cluster: &Cluster,
    theirs: &GlobalVec<u64>,
    mine: &GlobalVec<u64>,
) -> Result<f64> {
    cluster.barrier()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    theirs.put(0, now.to_bits())?;
    cluster.barrier()?;
    let ahead = f64::from_bits(mine.get(0)?) - now;
    cluster.barrier()?;
    Ok(ahead)
}

/// Reads and writes the other's memory.
fn measure(theirs: &GlobalVec<u64>) -> Result<Direction> {
    let mut found = Direction::default();
    (found.put_p50_us, found.put_p99_us) = time(|index| theirs.put(index, pattern(index, 0)))?;
    (found.get_p50_us, found.get_p99_us) = time(|index| {
        let word = theirs.get(index)?;
        found.wrong_words += f64::from(u8::from(word != pattern(index, 0)));
        Ok(())
    })?;
    let (mut put, mut get) = (0.0, 0.0);
    let mut words = vec![0; WORDS];
    for round in 1..=ROUNDS {
        words.iter_mut().enumerate().for_each(|(index, word)| *word = pattern(index, round));
        let start = Instant::now();
        theirs.put_slice(0, &words)?;
        put += start.elapsed().as_secs_f64();
        words.fill(0);
        let start = Instant::now();
        theirs.get_slice(0, &mut words)?;
        get += start.elapsed().as_secs_f64();
        found.wrong_words += count_wrong(&words, round);
    }
    let bytes = (WORDS * size_of::<u64>()) as f64 * ROUNDS as f64;
    (found.put_bytes_per_s, found.get_bytes_per_s) = (bytes / put, bytes / get);
    Ok(found)
}

/// Times `access` to each of the first words: microseconds of the median and of the 99th of a
/// hundred.
fn time(mut access: impl FnMut(usize) -> pangea::Result) -> Result<(f64, f64)> {
    let mut times = Vec::with_capacity(SINGLES);
    for index in 0..SINGLES {
        let start = Instant::now();
        access(index)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_unstable_by(f64::total_cmp);
    Ok((times[SINGLES / 2], times[SINGLES * 99 / 100]))
}

fn wrong_words(mine: &GlobalVec<u64>, round: u64) -> Result<f64> {
    let mut words = vec![0; WORDS];
    mine.get_slice(0, &mut words)?;
    Ok(count_wrong(&words, round))
}

fn count_wrong(words: &[u64], round: u64) -> f64 {
    let words = words.iter().enumerate();
    words.filter(|(index, word)| **word != pattern(*index, round)).count() as f64
}

/// A word that is told from its neighbours, and from itself in another round.
fn pattern(index: usize, round: u64) -> u64 {
    (index as u64 + (round << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
