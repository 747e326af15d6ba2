//! Additions to one word, as many as one likes, over cables that do their worst.

use std::{sync::Arc, time::Duration};

use pangea_rdma::{
    Completion, Mapping, Moment, NodeId, Op, RemoteAddr, Request, Token,
    sim::{Cluster, Faults, Model},
};

use crate::program::REGION;

const HOME: NodeId = NodeId::new(0);
const NODES: u16 = 4;
/// Additions that a node has open.
const OPEN_MAX: u64 = 200;
const FAULTS: Faults = Faults {
    loss: 10_000,
    duplication: 10_000,
    corruption: 5_000,
    reordering: 20_000,
    delay_max: Duration::from_micros(20),
};

/// Adds one `count` times, and checks that every addition has another result; how many events it
/// took.
pub(crate) fn run(seed: u64, count: u64) -> u64 {
    let cluster = Cluster::new(NODES, seed, Model::THUNDERBOLT_5, FAULTS);
    let mut cluster = cluster.expect("a cluster can be made");
    let memory = Arc::new(Mapping::new(4096).expect("there is memory"));
    cluster.register(HOME, memory.clone()).expect("the node is up");
    let adders: Vec<NodeId> = NodeId::all(NODES).filter(|&node| node != HOME).collect();
    let deadline = Moment::START.after(Duration::from_secs(1));
    let knows = |cluster: &mut Cluster| {
        adders.iter().all(|&node| cluster.region_len(node, HOME, REGION).is_some())
    };
    assert!(cluster.run_until(deadline, &mut { knows }), "all know of the region");

    let mut tickets = Tickets::new(count);
    let (mut posted, mut ended, mut events) = (0, 0, 0_u64);
    let target = RemoteAddr { node: HOME, region: REGION, offset: 0 };
    let request = Request { token: Token(0), op: Op::FetchAdd { target, addend: 1 } };
    let mut open = [0; NODES as usize];
    while ended < count {
        for &node in &adders {
            while open[node.index()] < OPEN_MAX && posted < count {
                // SAFETY: an addition names no memory of this process.
                let accepted = unsafe { cluster.post(node, &[request]) }.expect("nobody is down");
                if accepted == 0 {
                    break;
                }
                open[node.index()] += 1;
                posted += 1;
            }
        }
        let deadline = cluster.now().after(Cluster::LIVENESS);
        assert!(cluster.step(deadline), "something happens");
        events += 1;
        for &node in &adders {
            cluster.poll(node, &mut |completion| {
                let Completion::Done { result, .. } = completion else { return };
                tickets.take(result.expect("nobody is lost"));
                open[node.index()] -= 1;
                ended += 1;
            });
        }
    }
    let mut word = [0; 8];
    memory.read(0, &mut word).expect("a word of the region");
    assert_eq!(u64::from_le_bytes(word), count, "every addition counts once");
    events
}

/// What additions have returned: a bit each.
struct Tickets {
    words: Vec<u64>,
    count: u64,
}

impl Tickets {
    fn new(count: u64) -> Self {
        let words = usize::try_from(count.div_ceil(64)).expect("so many bits can be kept");
        Self { words: vec![0; words], count }
    }

    fn take(&mut self, ticket: u64) {
        assert!(ticket < self.count, "no more was added than was to be: {ticket}");
        let word = &mut self.words[usize::try_from(ticket / 64).expect("an index")];
        assert!(*word >> (ticket % 64) & 1 == 0, "no two additions return {ticket}");
        *word |= 1 << (ticket % 64);
    }
}
