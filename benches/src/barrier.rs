//! What a barrier costs.

use std::sync::atomic::AtomicU64;

use pangea::{Cluster, Config, FrozenVec, GlobalVec, Placement, Result};

use crate::{Figure, Figures, figure::time, handover::Handover, pin::pin};

pub(crate) const FIGURES: &[(&str, &str)] =
    &[("barrier", "a barrier of all nodes, against a cache-line hand-over round trip of two")];

const RUNS: usize = 21;
const BATCHES: usize = 20;
const BATCH: u32 = 500;

pub(crate) fn run() -> Figures {
    let cluster = Cluster::join(Config::from_env()?)?;
    pin(cluster.node().index());
    let number = cluster.node().number();
    let words = Words::share(&cluster)?;
    let handover = words.handover();
    let mut last = 0;
    let ours = || {
        time(BATCHES, BATCH, || {
            // An error would be a node that is lost; the barrier at the end finds out.
            (0..BATCH).for_each(|_| _ = cluster.barrier());
        })
    };
    let bound = || {
        time(BATCHES, BATCH, || {
            last += u64::from(BATCH);
            match number {
                0 => handover.call(last, BATCH),
                1 => handover.answer(last, BATCH),
                _ => {}
            }
        })
    };
    let figure = Figure::compare("barrier", "ns", RUNS, ours, bound);
    cluster.barrier()?;
    Ok(if number == 0 { vec![figure] } else { Vec::new() })
}

/// Raw words in the address space, for what is measured against.
struct Words {
    address: usize,
    // Keeps the memory that the address names.
    _memory: GlobalVec<u64>,
}

impl Words {
    const LEN: usize = 64;

    /// Words of node 0, which have the same address on every node.
    fn share(cluster: &Cluster) -> Result<Self> {
        if cluster.node().number() == 0 {
            let mut words = cluster.vec::<u64>(Self::LEN, Placement::Here)?;
            let address = words.slice_mut(..)?.as_mut_ptr().expose_provenance();
            let mut told = cluster.vec::<u64>(1, Placement::Here)?;
            told.slice_mut(..)?[0] = address as u64;
            cluster.publish("words", &words)?;
            cluster.publish("address", &told.freeze()?)?;
        }
        let memory = cluster.lookup("words")?;
        let told: FrozenVec<u64> = cluster.lookup("address")?;
        let address = usize::try_from(told.slice(..)?[0]).expect("an address");
        Ok(Self { address, _memory: memory })
    }

    fn handover(&self) -> Handover<'_> {
        Handover { forth: self.word(0), back: self.word(32) }
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < Self::LEN, "the words are few");
        let first = std::ptr::with_exposed_provenance_mut::<u64>(self.address);
        let word = first.wrapping_add(index);
        // SAFETY: the address is that of the first of `LEN` words in node 0's heap, which every
        // node maps at the same address and keeps mapped while `memory` lives; all access is
        // atomic.
        unsafe { AtomicU64::from_ptr(word) }
    }
}
