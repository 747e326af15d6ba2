//! Scenarios in which a node fails; what the others do then is the point.

use std::{
    process::{self, ExitCode},
    thread,
    time::{Duration, Instant},
};

use pangea::{Cluster, Error, FrozenVec, Placement, Result};

/// The node that fails.
const FAILING: u16 = 1;

fn is_failing(cluster: &Cluster) -> bool {
    cluster.node().number() == FAILING
}

/// Ends without a word to anybody.
fn die() -> ! {
    process::abort()
}

/// Waits in a barrier that cannot be passed; it must end, and tell why.
fn wait_in_vain(cluster: &Cluster) -> Result {
    let start = Instant::now();
    let result = cluster.barrier();
    // Far from the minute that the settings allow, and from what a busy machine takes.
    assert!(start.elapsed() < Duration::from_secs(20), "a loss ends a wait");
    match &result {
        Err(Error::PeerLost { .. }) => result,
        other => panic!("a barrier without all nodes: {other:?}"),
    }
}

pub(crate) fn die_in_barrier(cluster: &Cluster) -> Result {
    cluster.barrier()?;
    if is_failing(cluster) {
        die();
    }
    wait_in_vain(cluster)
}

/// The data of a lost node is an error to touch, and others' is as before.
pub(crate) fn die_with_data(cluster: &Cluster) -> Result {
    let own = cluster.vec::<u64>(10, Placement::Here)?;
    cluster.publish(&format!("frozen {}", cluster.node().number()), &own.freeze()?)?;
    cluster.barrier()?;
    let lost: FrozenVec<u64> = cluster.lookup(&format!("frozen {FAILING}"))?;
    let kept: FrozenVec<u64> = cluster.lookup("frozen 0")?;
    cluster.barrier()?;
    if is_failing(cluster) {
        die();
    }
    let ending = wait_in_vain(cluster);
    assert!(cluster.is_lost(pangea::NodeId::new(FAILING)));
    assert!(matches!(lost.slice(..), Err(Error::PeerLost { .. })));
    let error = cluster.vec::<u8>(1, Placement::On(pangea::NodeId::new(FAILING))).unwrap_err();
    assert!(matches!(error, Error::PeerLost { .. }), "{error}");
    if cluster.node().number() == 0 {
        assert_eq!(kept.slice(..)?, [0; 10]);
    }
    ending
}

/// Looks up what nobody will publish any more.
pub(crate) fn die_unpublished(cluster: &Cluster) -> Result {
    cluster.barrier()?;
    if is_failing(cluster) {
        die();
    }
    // Names are kept by different nodes, this one and the lost one among them.
    let results = (0..8).map(|name| cluster.lookup::<FrozenVec<u8>>(&format!("name {name}")));
    let errors: Vec<Error> = results.filter_map(Result::err).collect();
    assert_eq!(errors.len(), 8);
    assert!(errors.iter().all(|error| matches!(error, Error::PeerLost { .. })), "{errors:?}");
    wait_in_vain(cluster)
}

/// One node leaves, all well, while the others expect more of it.
pub(crate) fn end_early(cluster: &Cluster) -> Result {
    if is_failing(cluster) { Ok(()) } else { wait_in_vain(cluster) }
}

pub(crate) fn exit_early(cluster: &Cluster) -> Result {
    let _held = cluster.vec::<u8>(100, Placement::Spread)?;
    if is_failing(cluster) {
        eprintln!("the last words of node {FAILING}");
        process::exit(3);
    }
    wait_in_vain(cluster)
}

pub(crate) fn fail(cluster: &Cluster) -> Result {
    let _held = cluster.vec::<u8>(100, Placement::Spread)?;
    if is_failing(cluster) {
        return Err(Error::Published);
    }
    wait_in_vain(cluster)
}

pub(crate) fn panic(cluster: &Cluster) -> Result {
    let _held = cluster.vec::<u8>(100, Placement::Spread)?;
    assert!(!is_failing(cluster), "the last words of node {FAILING}");
    wait_in_vain(cluster)
}

/// Waits, for as long as it takes to be killed.
pub(crate) fn idle(cluster: &Cluster) -> Result {
    println!("ready");
    cluster.barrier()?;
    while cluster.node().number() == 0 {
        // May return when it likes.
        thread::park();
    }
    cluster.barrier()
}

/// A node that is late is no lost node: who waits for it gives up when the settings say so, is
/// told whom it waited for, and may wait again.
pub(crate) fn stop(cluster: &Cluster) -> Result {
    if is_failing(cluster) {
        let patience = Instant::now() + Duration::from_secs(60);
        let again: FrozenVec<u8> = cluster.lookup("gave up")?;
        assert!(again.is_empty() && Instant::now() < patience);
        return cluster.barrier();
    }
    if cluster.node().number() == 0 {
        let error = cluster.barrier_until(Instant::now() + Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("node 1 to reach a barrier"), "{error}");
        cluster.publish("gave up", &cluster.vec::<u8>(0, Placement::Here)?.freeze()?)?;
    }
    cluster.barrier()
}

/// One node ends before it has joined.
pub(crate) fn never_join() -> ExitCode {
    if std::env::var("PANGEA_NODE").is_ok_and(|node| node == FAILING.to_string()) {
        return ExitCode::SUCCESS;
    }
    let start = Instant::now();
    let joined = pangea::Config::from_env().and_then(Cluster::join);
    let error = joined.expect_err("a node is missing");
    assert!(start.elapsed() < Duration::from_secs(20), "{error}");
    eprintln!("error: {error}");
    ExitCode::FAILURE
}
