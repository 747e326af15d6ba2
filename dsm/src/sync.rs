//! The barrier: in round k, a node tells the one 2^k after it, and hears from the one 2^k before
//! it.
//!
//! After the last round everybody has heard, directly or not, from everybody (dissemination
//! barrier: Hensgen, Finkel and Manber, 1988). Telling is a store to a word of the other's page.

use std::{
    hint::spin_loop,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use pangea_rdma::{Fabric, Mapping, NodeId, Presence};

use crate::{Error, Result};

/// Bytes between the words of two rounds: two cache lines of x86, one of Apple silicon.
const ROUND_BYTES: u64 = 128;
/// Bytes of the page with a node's words: one for each round of the largest cluster.
pub(crate) const PAGE_LEN: usize = 16 * 128;
/// Looks at a word before the other node is told to wake, if it sleeps.
const LOOKS: u32 = 64;

/// When a wait gives up. To read the clock takes as long as a barrier, so that it is read only
/// where there is a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deadline {
    At(Instant),
    After(Duration),
}

impl Deadline {
    fn instant(self) -> Instant {
        match self {
            Self::At(instant) => instant,
            Self::After(time) => Instant::now() + time,
        }
    }
}

/// A node's part in the barriers of its cluster.
#[derive(Debug)]
pub(crate) struct Barrier {
    // By node.
    pages: Vec<Arc<Mapping>>,
    // Barriers that this node has passed.
    passed: Mutex<u64>,
}

impl Barrier {
    pub(crate) fn new(pages: Vec<Arc<Mapping>>) -> Self {
        Self { pages, passed: Mutex::new(0) }
    }

    /// Waits until every node has come here as often as this one.
    ///
    /// One that has failed can be tried again: it goes on where it was.
    pub(crate) fn wait(&self, fabric: &dyn Fabric, deadline: Deadline) -> Result {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let number = *passed + 1;
        let nodes = u32::from(fabric.nodes());
        let rounds = (0..u16::BITS).take_while(|round| 1 << round < nodes);
        for round in rounds {
            self.pass_round(fabric, round, number, deadline)?;
        }
        *passed = number;
        Ok(())
    }

    fn pass_round(
        &self,
        fabric: &dyn Fabric,
        round: u32,
        number: u64,
        deadline: Deadline,
    ) -> Result {
        let (nodes, node) = (u32::from(fabric.nodes()), u32::from(fabric.node().number()));
        let step = 1 << round;
        let peer = |number: u32| NodeId::new(u16::try_from(number % nodes).expect("a node"));
        let (to, from) = (peer(node + step), peer(node + nodes - step));
        self.word(to, round)?.tell(number);
        let word = self.word(fabric.node(), round)?;
        let told_at_once = (0..LOOKS).any(|_| {
            spin_loop();
            word.has_heard(number)
        });
        fabric.ring(to);
        if told_at_once {
            return Ok(());
        }
        let (start, mut lost) = (Instant::now(), None);
        fabric.wait_until(deadline.instant(), &mut || {
            if word.has_heard(number) {
                return true;
            }
            lost = lost_node(fabric, from);
            lost.is_some()
        });
        // Looked at once more: what a node wrote before it was lost counts.
        if word.has_heard(number) {
            return Ok(());
        }
        if let Some(node) = lost {
            return Err(Error::PeerLost { node, epoch: fabric.epoch() });
        }
        let waiting_for = format!("{from} to reach a barrier");
        Err(Error::TimedOut { waiting_for, after: start.elapsed() })
    }

    fn word(&self, node: NodeId, round: u32) -> Result<RoundWord<'_>> {
        let page = &self.pages[node.index()];
        Ok(RoundWord(page.word(u64::from(round) * ROUND_BYTES)?))
    }
}

/// The word through which a node hears, in one round, that another has come.
struct RoundWord<'a>(&'a std::sync::atomic::AtomicU64);

impl RoundWord<'_> {
    fn tell(&self, number: u64) {
        // Release: pairs with the Acquire in `has_heard`; all that was written before the barrier
        // is visible after it.
        self.0.store(number, std::sync::atomic::Ordering::Release);
    }

    fn has_heard(&self, number: u64) -> bool {
        // Acquire: pairs with the Release in `tell`.
        self.0.load(std::sync::atomic::Ordering::Acquire) >= number
    }
}

/// A node without which the barrier cannot be passed: `from` if it is gone, or any that has died.
///
/// One that said goodbye may have passed this barrier before; who waits for it in vain fails, and
/// so do all, in turn.
fn lost_node(fabric: &dyn Fabric, from: NodeId) -> Option<NodeId> {
    if fabric.epoch() == 1 {
        return None;
    }
    let is_dead = |node: &NodeId| fabric.presence(*node) == Presence::Died;
    let is_gone = |node: NodeId| fabric.is_lost(node).then_some(node);
    NodeId::all(fabric.nodes()).find(is_dead).or_else(|| is_gone(from))
}
