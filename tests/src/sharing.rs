//! Sharing a value with nodes that may have been built from other sources.

use std::process::ExitCode;

use pangea::{Cluster, Config, GlobalVec, Placement, Portable, Result};

/// Joins the cluster, where node 0 publishes `value` and the others look it up.
pub fn share<T: Portable>(value: T) -> ExitCode {
    match try_to_share(value) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn try_to_share<T: Portable>(value: T) -> Result {
    let cluster = Cluster::join(Config::from_env()?)?;
    if cluster.node().number() == 0 {
        let vec = cluster.vec::<T>(1, Placement::Here)?;
        vec.put(0, value)?;
        cluster.publish("shared", &vec)?;
    } else {
        let vec: GlobalVec<T> = cluster.lookup("shared")?;
        vec.get(0)?;
    }
    cluster.barrier()
}
