//! Clusters to try things on: nodes with their regions, served by threads.

use std::{
    ops::Index,
    panic,
    sync::Arc,
    thread::{self, JoinHandle},
};

use super::{
    node::{Node, soon},
    providers::Maker,
};
use crate::primitive::{AtomicU32, Ordering};

/// Nodes, each with a region, and each served by a thread.
pub(super) struct Cluster {
    nodes: Vec<Option<Served>>,
}

impl Cluster {
    pub(super) fn new(make: Maker, nodes: u16, region_len: usize) -> Self {
        let nodes: Vec<Arc<Node>> =
            make(nodes).into_iter().map(|fabric| Arc::new(Node::new(fabric, region_len))).collect();
        // What is lost on its way is sent again only by nodes that are served.
        let served: Vec<_> = nodes.iter().cloned().map(Served::new).collect();
        nodes.iter().for_each(|node| node.attach_all());
        Self { nodes: served.into_iter().map(Some).collect() }
    }

    /// Takes out a node, to stop it or to lose it.
    pub(super) fn take(&mut self, node: usize) -> Served {
        self.nodes[node].take().expect("a node is taken once")
    }
}

impl Index<usize> for Cluster {
    type Output = Node;

    fn index(&self, node: usize) -> &Node {
        &self.nodes[node].as_ref().expect("the node was not taken").node
    }
}

/// A node that answers its peers.
pub(super) struct Served {
    pub(super) node: Arc<Node>,
    service: Option<Service>,
}

impl Served {
    fn new(node: Arc<Node>) -> Self {
        Self { service: Some(Service::start(&node)), node }
    }

    /// Lets the peers wait.
    pub(super) fn pause(&mut self) {
        drop(self.service.take());
    }

    pub(super) fn resume(&mut self) {
        self.service = Some(Service::start(&self.node));
    }

    /// Leaves, with a goodbye.
    pub(super) fn leave(self) {}

    /// Dies: a fabric that is dropped by a panic says nothing.
    pub(super) fn die(mut self) {
        self.pause();
        let dying = thread::spawn(move || {
            let _dropped_last = self;
            panic::resume_unwind(Box::new(()));
        });
        assert!(dying.join().is_err());
    }
}

/// A thread that serves a node until it is dropped.
struct Service {
    node: Arc<Node>,
    is_over: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    fn start(node: &Arc<Node>) -> Self {
        let is_over = Arc::new(AtomicU32::new(0));
        let thread = thread::spawn({
            let (node, is_over) = (node.clone(), is_over.clone());
            move || {
                // Relaxed: there is nothing to see but the number.
                while is_over.load(Ordering::Relaxed) == 0 {
                    node.poll();
                    node.fabric.wait(node.fabric.epoch(), soon());
                }
            }
        });
        Self { node: node.clone(), is_over, thread: Some(thread) }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Relaxed: as above.
        self.is_over.store(1, Ordering::Relaxed);
        let thread = self.thread.take().expect("a service ends once");
        // Again, as another thread that waits may be the one that is woken.
        while !thread.is_finished() {
            self.node.fabric.wake();
            thread::yield_now();
        }
        let ended = thread.join();
        assert!(thread::panicking() || ended.is_ok(), "the service goes on until it is over");
    }
}
