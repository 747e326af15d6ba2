//! The example of README.md: one node writes, all read.
//!
//! `cargo run --example squares -p pangea` alone, or `pangea run -n 4 --
//! target/debug/examples/squares`.

use pangea::{Cluster, Config, FrozenVec, Placement};

fn main() -> pangea::Result {
    let cluster = Cluster::join(Config::from_env()?)?;
    if cluster.node().number() == 0 {
        let squares = cluster.vec::<u64>(1000, Placement::Here)?;
        for i in 0..1000 {
            squares.put(i, (i * i) as u64)?;
        }
        cluster.publish("squares", &squares.freeze()?)?;
    }
    let squares: FrozenVec<u64> = cluster.lookup("squares")?;
    let sum: u64 = squares.slice(..)?.iter().sum();
    println!("{} of {}: {sum}", cluster.node(), cluster.nodes());
    cluster.barrier()
}
