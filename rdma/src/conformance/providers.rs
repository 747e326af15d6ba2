//! The providers, as functions that make the nodes of a cluster.

use std::{
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    sync::Arc,
    thread,
    time::Duration,
};

use super::node::soon;
use crate::{
    Choice, Fabric, NodeId, Path, Paths,
    bootstrap::{Connection, Meeting, ciphers},
    shm::Shm,
    sim::{self, Faults, Model},
};

/// Makes the nodes of a cluster of that many.
pub(crate) type Maker = fn(u16) -> Vec<Arc<dyn Fabric>>;

/// All on one host.
pub(crate) fn shm(nodes: u16) -> Vec<Arc<dyn Fabric>> {
    let meetings = meetings(nodes, &|_| 0, &plain);
    connect(meetings, |meeting| Arc::new(Shm::connect(meeting, soon()).unwrap()))
}

/// Each on its own host, joined by TCP.
pub(crate) fn tcp(nodes: u16) -> Vec<Arc<dyn Fabric>> {
    paths(meetings(nodes, &|node| node, &plain), TCP)
}

/// Each on its own host, joined by TCP that is encrypted.
pub(crate) fn sealed_tcp(nodes: u16) -> Vec<Arc<dyn Fabric>> {
    paths(meetings(nodes, &|node| node, &sealed), TCP)
}

/// Each on its own host, joined by the fastest that is found: `tests/conformance.sh` sees to RDMA.
pub(crate) fn found(nodes: u16) -> Vec<Arc<dyn Fabric>> {
    paths(meetings(nodes, &|node| node, &plain), Choice::from_env().unwrap())
}

/// Half of them on one host and half on another, joined by the fastest that is found.
pub(crate) fn mixed(nodes: u16) -> Vec<Arc<dyn Fabric>> {
    paths(meetings(nodes, &|node| 2 * node / nodes, &plain), Choice::from_env().unwrap())
}

/// Joined by cables in virtual time that do what they should.
pub(crate) fn sim(nodes: u16) -> Vec<Arc<dyn Fabric>> {
    simulated(nodes, 1, Faults::NONE)
}

/// Joined by cables in virtual time on which everything happens to frames that can.
pub(crate) fn lossy_sim(nodes: u16) -> Vec<Arc<dyn Fabric>> {
    let delay_max = Duration::from_micros(20);
    let (loss, duplication, corruption, reordering) = (20_000, 20_000, 5_000, 50_000);
    simulated(nodes, 2, Faults { loss, duplication, corruption, reordering, delay_max })
}

fn simulated(nodes: u16, seed: u64, faults: Faults) -> Vec<Arc<dyn Fabric>> {
    let fabrics = sim::Fabric::all(nodes, seed, Model::THUNDERBOLT_5, faults).unwrap();
    fabrics.into_iter().map(|fabric| Arc::new(fabric) as Arc<dyn Fabric>).collect()
}

const TCP: Choice = Choice { path: Path::Tcp, requires_rdma: false };

fn paths(meetings: Vec<Meeting>, choice: Choice) -> Vec<Arc<dyn Fabric>> {
    connect(meetings, move |meeting| Arc::new(Paths::connect(meeting, choice, soon()).unwrap()))
}

/// Connects all at once, as each waits for the others.
fn connect(
    meetings: Vec<Meeting>,
    connect: impl Fn(Meeting) -> Arc<dyn Fabric> + Sync,
) -> Vec<Arc<dyn Fabric>> {
    let connect = &connect;
    thread::scope(|scope| {
        let join = |meeting| scope.spawn(move || connect(meeting));
        let joins: Vec<_> = meetings.into_iter().map(join).collect();
        joins.into_iter().map(|join| join.join().unwrap()).collect()
    })
}

/// The meetings of nodes that are on the hosts that `host` says.
pub(crate) fn meetings(
    nodes: u16,
    host: &dyn Fn(u16) -> u16,
    wire: &dyn Fn() -> [Connection; 2],
) -> Vec<Meeting> {
    let nothing = |node| Meeting {
        node,
        nodes,
        sockets: (0..nodes).map(|_| None).collect(),
        connections: (0..nodes).map(|_| None).collect(),
        hosts: (0..nodes).map(|node| format!("host {}", host(node))).collect(),
        lifeline: None,
    };
    let mut meetings: Vec<Meeting> = NodeId::all(nodes).map(nothing).collect();
    for one in 0..nodes {
        for two in one + 1..nodes {
            let (first, second) = (usize::from(one), usize::from(two));
            if host(one) == host(two) {
                let (here, there) = UnixStream::pair().unwrap();
                meetings[first].sockets[second] = Some(here);
                meetings[second].sockets[first] = Some(there);
            } else {
                let [here, there] = wire();
                meetings[first].connections[second] = Some(here);
                meetings[second].connections[first] = Some(there);
            }
        }
    }
    meetings
}

/// Both ends of a connection over loopback.
pub(crate) fn plain() -> [Connection; 2] {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let two = listener.accept().unwrap().0;
    [one, two].map(|stream| {
        stream.set_nodelay(true).unwrap();
        Connection { stream, cipher: None, reason: String::new() }
    })
}

fn sealed() -> [Connection; 2] {
    let [mut one, mut two] = plain();
    [one.cipher, two.cipher] = ciphers().map(Some);
    [one, two]
}
