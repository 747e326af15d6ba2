//! A cluster that goes on by itself.
//!
//! A thread takes it from event to event, with the [`Pace`] of real time, until no node is up.
//! Whoever posts sees to it that it does not sleep, and it rings for those who wait for what has
//! come. The cluster's lock is held by all of them for a moment, and never while a program's own
//! code runs.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use super::{Cluster, pace::Pace};
use crate::{Error, NodeId, Result, wait::Doorbell};

/// Events after which it is others' turn to have the cluster.
const TURN: usize = 64;

/// A cluster, and the doorbells of those who wait for something to happen in it.
#[derive(Debug)]
pub(super) struct Live {
    cluster: Mutex<Cluster>,
    // By node.
    bells: Vec<Doorbell>,
    // Of the thread.
    starter: Doorbell,
}

impl Live {
    /// Has `cluster` go on.
    pub(super) fn start(cluster: Cluster) -> Result<Arc<Self>> {
        let bells = NodeId::all(cluster.nodes()).map(|_| Doorbell::default()).collect();
        let this = Self { cluster: Mutex::new(cluster), bells, starter: Doorbell::default() };
        let this = Arc::new(this);
        let moved = this.clone();
        let thread = thread::Builder::new().name("simulator".into()).spawn(move || moved.run());
        thread.map_err(Error::os("starting a thread"))?;
        Ok(this)
    }

    /// The cluster, to ask it something.
    pub(super) fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the cluster, which then goes on to what this has planned.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Cluster) -> T) -> T {
        let result = change(&mut self.cluster());
        self.starter.ring();
        result
    }

    /// Waits until `ready`, which is looked at when something has come at `node`; or until
    /// `deadline`. Whether it is ready.
    pub(super) fn wait(
        &self,
        node: NodeId,
        deadline: Instant,
        ready: &mut dyn FnMut() -> bool,
    ) -> bool {
        self.bells[node.index()].sleep(deadline, ready)
    }

    /// Wakes who waits at `node`.
    pub(super) fn ring(&self, node: NodeId) {
        if let Some(bell) = self.bells.get(node.index()) {
            bell.ring();
        }
    }

    fn run(&self) {
        let mut pace = Pace::new(self.cluster().now(), Instant::now());
        while let Some(due) = self.next_due(&pace) {
            if due <= Instant::now() {
                self.advance(&mut pace);
                // Who waits for the lock gets it now, even on the only core.
                thread::yield_now();
            } else {
                let is_sooner = |next| next < due;
                self.starter.sleep(due, &mut || self.next_due(&pace).is_none_or(is_sooner));
            }
        }
    }

    /// When to go on; `None` where no node is up.
    fn next_due(&self, pace: &Pace) -> Option<Instant> {
        let cluster = self.cluster();
        Some(pace.due(cluster.now(), cluster.next_at()?))
    }

    /// Goes on to what is due, as far as a turn goes, and tells whom it concerns.
    fn advance(&self, pace: &mut Pace) {
        let mut cluster = self.cluster();
        for _ in 0..TURN {
            let (instant, Some(at)) = (Instant::now(), cluster.next_at()) else { break };
            if pace.due(cluster.now(), at) > instant {
                break;
            }
            cluster.step(at);
            pace.reach(at, instant);
        }
        let nodes = NodeId::all(cluster.nodes());
        let concerned: Vec<NodeId> = nodes.filter(|&node| cluster.has_news(node)).collect();
        drop(cluster);
        concerned.into_iter().for_each(|node| self.ring(node));
    }
}
