//! The barrier: in round k, a node tells the one 2^k after it, and hears from the one 2^k before
//! it.
//!
//! After the last round everybody has heard, directly or not, from everybody (dissemination
//! barrier: Hensgen, Finkel and Manber, 1988). Telling is a store to a word of the other's page.

use std::{
    hint::spin_loop,
    sync::{
        Arc, Mutex, MutexGuard, TryLockError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use pangea_rdma::{Fabric, Mapping, NodeId};

use crate::{Error, Result};

/// Bytes between the words of two rounds: two cache lines of x86, one of Apple silicon.
const ROUND_BYTES: u64 = 128;
/// The place, behind those of all rounds, of the word that counts the barriers a node has passed.
const PASSED: u32 = u16::BITS;
/// Bytes of the page with a node's words.
pub(crate) const PAGE_LEN: usize = (PASSED as usize + 1) * 128;
/// Between two looks whether another thread is done with its barrier; it is rare that two want one.
const TURN: Duration = Duration::from_micros(100);
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
        let mut passed = self.turn(deadline)?;
        let number = *passed + 1;
        let nodes = u32::from(fabric.nodes());
        let rounds = (0..u16::BITS).take_while(|round| 1 << round < nodes);
        for round in rounds {
            self.pass_round(fabric, round, number, deadline)?;
        }
        self.word(fabric.node(), PASSED)?.tell(number);
        *passed = number;
        Ok(())
    }

    /// Waits for another thread of this node to be done with its barrier.
    fn turn(&self, deadline: Deadline) -> Result<MutexGuard<'_, u64>> {
        let mut end = None;
        loop {
            match self.passed.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
            let start = Instant::now();
            let end = *end.get_or_insert_with(|| deadline.instant());
            if start >= end {
                let waiting_for = "another thread of this node to pass a barrier".to_owned();
                return Err(Error::TimedOut { waiting_for, after: start.elapsed() });
            }
            thread::sleep(TURN.min(end - start));
        }
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
            let has_heard = word.has_heard(number);
            if !has_heard {
                spin_loop();
            }
            has_heard
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
            lost = self.missing(fabric, number);
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

    /// A node that is gone and has not passed the barrier: nobody can pass it.
    fn missing(&self, fabric: &dyn Fabric, number: u64) -> Option<NodeId> {
        if fabric.epoch() == 1 {
            return None;
        }
        let has_passed = |node| self.word(node, PASSED).is_ok_and(|word| word.has_heard(number));
        NodeId::all(fabric.nodes()).find(|&node| fabric.is_lost(node) && !has_passed(node))
    }

    fn word(&self, node: NodeId, round: u32) -> Result<RoundWord<'_>> {
        let page = &self.pages[node.index()];
        Ok(RoundWord(page.word(u64::from(round) * ROUND_BYTES)?))
    }
}

/// The word through which a node hears, in one round, that another has come.
struct RoundWord<'a>(&'a AtomicU64);

impl RoundWord<'_> {
    fn tell(&self, number: u64) {
        // Release: pairs with the Acquire in `has_heard`; all that was written before the barrier
        // is visible after it.
        self.0.store(number, Ordering::Release);
    }

    fn has_heard(&self, number: u64) -> bool {
        // Acquire: pairs with the Release in `tell`.
        self.0.load(Ordering::Acquire) >= number
    }
}
