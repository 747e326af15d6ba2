//! A node's end of a cable of the network, as a link sees it.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{Network, occasion::Occasion};
use crate::{
    Moment, NodeId,
    frames::{Event, Wire},
    link::{FRAME_LEN_MAX, Slab, SlotId},
    moment::nanos,
};

/// What all nodes share: the network, and what it has brought and nobody has looked at.
#[derive(Debug)]
pub(super) struct World {
    pub(super) network: Network,
    // When the network's time begins.
    start: Instant,
    // By receiver and sender.
    mail: Vec<VecDeque<Mail>>,
    nodes: u16,
}

/// What the network has brought to an end of a cable.
#[derive(Debug)]
pub(super) enum Mail {
    /// A frame has come.
    Frame(Vec<u8>),
    /// The network no longer reads the slot.
    Sent(SlotId),
}

impl World {
    pub(super) fn new(network: Network, nodes: u16) -> Self {
        let pairs = usize::from(nodes) * usize::from(nodes);
        let mail = (0..pairs).map(|_| VecDeque::new()).collect();
        Self { network, start: Instant::now(), mail, nodes }
    }

    /// The time, as links and nodes are told it.
    pub(super) fn now(&self) -> Instant {
        self.start + Duration::from_nanos(self.network.now().0)
    }

    /// When `at` is, for the network.
    pub(super) fn moment(&self, at: Instant) -> Moment {
        Moment::START.after(at.saturating_duration_since(self.start))
    }

    /// Some time from now on, and before `limit` has passed: what happens to several nodes does not
    /// happen to all at the same time.
    pub(super) fn time_within(&mut self, limit: Duration) -> Instant {
        let limit = nanos(limit);
        self.now() + Duration::from_nanos(self.network.random().below(limit))
    }

    /// Wakes `node` at `at`.
    pub(super) fn wake(&mut self, node: NodeId, at: Moment, occasion: Occasion) {
        self.network.wake(node, at, occasion.tag());
    }

    /// What was brought to `node` from its cable to `peer`.
    pub(super) fn mail(&mut self, node: NodeId, peer: NodeId) -> &mut VecDeque<Mail> {
        &mut self.mail[node.index() * usize::from(self.nodes) + peer.index()]
    }
}

/// The world, for who has a share in it. One thread moves it; there is no waiting for the lock.
pub(super) fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One end of a cable.
#[derive(Debug)]
pub(super) struct Cable {
    world: Arc<Mutex<World>>,
    node: NodeId,
    peer: NodeId,
    membership: u16,
    slab: Box<Slab>,
    // What is being looked at.
    mail: VecDeque<Mail>,
}

impl Cable {
    /// The end of `node` of its cable to `peer`, with so many slots.
    pub(super) fn new(
        world: Arc<Mutex<World>>,
        (node, peer): (NodeId, NodeId),
        membership: u16,
        slots: usize,
    ) -> Self {
        lock(&world).mail(node, peer).clear();
        let slab = vec![[0; FRAME_LEN_MAX]; slots].into_boxed_slice();
        Self { world, node, peer, membership, slab, mail: VecDeque::new() }
    }
}

impl Wire for Cable {
    fn now(&self) -> Instant {
        lock(&self.world).now()
    }

    fn slab(&mut self) -> &mut Slab {
        &mut self.slab
    }

    fn send(&mut self, slot: SlotId, len: usize) -> bool {
        let mut world = lock(&self.world);
        let frame = &self.slab[slot.index()][..len];
        let left = world.network.send(self.node, self.peer, frame);
        let (membership, peer) = (self.membership, self.peer);
        world.wake(self.node, left, Occasion::Sent { membership, peer, slot });
        true
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        mem::swap(&mut self.mail, lock(&self.world).mail(self.node, self.peer));
        for mail in self.mail.drain(..) {
            match mail {
                Mail::Frame(bytes) => sink(Event::Frame(&bytes)),
                Mail::Sent(slot) => sink(Event::Sent(slot)),
            }
        }
    }
}
