//! How fast many bytes come over.

use std::hint::black_box;

use pangea::{Cluster, Config, GlobalVec, Placement, Result};

use crate::{Figure, Figures, figure::time, pin::pin};

pub(crate) const FIGURES: &[(&str, &str)] =
    &[("bandwidth.read", "read of 64 MiB from another node, against memcpy in private memory")];

const LEN: usize = 64 << 20;
const RUNS: usize = 21;

pub(crate) fn run() -> Figures {
    let cluster = Cluster::join(Config::from_env()?)?;
    pin(cluster.node().index());
    if cluster.node().number() == cluster.nodes() - 1 {
        let mut vec = cluster.vec::<u8>(LEN, Placement::Here)?;
        vec.use_large_pages()?;
        vec.slice_mut(..)?.fill(1);
        cluster.publish("bytes", &vec)?;
    }
    let mut figures = Vec::new();
    if cluster.node().number() == 0 {
        let bytes: GlobalVec<u8> = cluster.lookup("bytes")?;
        figures.push(read(&bytes)?);
    }
    cluster.barrier()?;
    Ok(figures)
}

fn read(bytes: &GlobalVec<u8>) -> Result<Figure> {
    let source = vec![1_u8; LEN];
    let (mut target, mut other) = (vec![0_u8; LEN], vec![0_u8; LEN]);
    bytes.get_slice(0, &mut target)?;
    // Gigabytes a second: a byte a nanosecond is one of them.
    let rate = |samples: Vec<f64>| samples.into_iter().map(|ns| LEN as f64 / ns).collect();
    let ours = || {
        rate(time(1, 1, || {
            // An error would be a node that is lost; the barrier at the end finds out.
            _ = bytes.get_slice(0, &mut target);
            black_box(&target);
        }))
    };
    let bound = || {
        rate(time(1, 1, || {
            other.copy_from_slice(&source);
            black_box(&other);
        }))
    };
    Ok(Figure::compare("bandwidth.read", "GB/s", RUNS, ours, bound))
}
