//! Scenarios over two cables between two nodes, of which one may be pulled.

use std::{env, path::Path, thread, time::Instant};

use pangea::{Cluster, Error, GlobalVec, NodeId, Placement, Result};

/// Bytes that are read at a time: many parts.
const LEN: usize = 16 << 20;

/// Bytes of node 1, which node 0 has written.
fn bytes(cluster: &Cluster) -> Result<GlobalVec<u8>> {
    if cluster.node() == NodeId::new(0) {
        let bytes = cluster.vec::<u8>(LEN, Placement::On(NodeId::new(1)))?;
        bytes.put_slice(0, &pattern())?;
        cluster.publish("bytes", &bytes)?;
    }
    cluster.barrier()?;
    cluster.lookup("bytes")
}

fn pattern() -> Vec<u8> {
    (0..=250).cycle().take(LEN).collect()
}

/// Pulls the cable out of a port.
fn pull(port: &str) {
    let folder = env::var("PANGEA_FAKE_TB_DIR").expect("the cables are none");
    pangea_fake_thunderbolt::plug(Path::new(&folder), port, false).expect("there is such a port");
}

/// Reads all bytes again and again, for `rounds` rounds.
fn read(bytes: &GlobalVec<u8>, rounds: usize) -> Result {
    let (pattern, mut seen) = (pattern(), vec![0; LEN]);
    for _ in 0..rounds {
        seen.fill(0xFF);
        bytes.get_slice(0, &mut seen)?;
        assert!(seen == pattern, "what is read is what was written");
    }
    Ok(())
}

/// What was to come over a cable that is pulled comes over the other.
pub(crate) fn pull_stripe(cluster: &Cluster) -> Result {
    let way = cluster.path(NodeId::new(1 - cluster.node().number()));
    let devices = if cluster.node() == NodeId::new(0) {
        "rdma_en2 and rdma_en3"
    } else {
        "rdma_en3 and rdma_en2"
    };
    assert_eq!(way.name, format!("RDMA by {devices}, unreliable"), "{}", way.reason);
    let bytes = bytes(cluster)?;
    if cluster.node() == NodeId::new(0) {
        read(&bytes, 2)?;
        thread::scope(|scope| {
            let reader = scope.spawn(|| read(&bytes, 10));
            pull("0.en3");
            // Atomics go on over the main cable meanwhile.
            let words = cluster.vec::<u64>(1, Placement::On(NodeId::new(1)))?;
            for round in 0..100 {
                assert_eq!(words.fetch_add(0, 1)?, round);
            }
            reader.join().expect("reading does not panic")
        })?;
    }
    cluster.barrier()
}

/// Without the cable over which all goes that has an order, the other node is lost, and what was to
/// come over the other cable too.
pub(crate) fn pull_main(cluster: &Cluster) -> Result {
    let bytes = bytes(cluster)?;
    if cluster.node() != NodeId::new(0) {
        return cluster.barrier();
    }
    read(&bytes, 2)?;
    let start = Instant::now();
    pull("0.en2");
    let ending = read(&bytes, usize::MAX);
    assert!(start.elapsed().as_secs() < 20, "a loss is noticed");
    assert!(matches!(ending, Err(Error::PeerLost { .. })), "{ending:?}");
    ending
}
