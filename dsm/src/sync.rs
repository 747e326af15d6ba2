//! The barrier: in round k, a node tells the one 2^k after it, and hears from the one 2^k before
//! it.
//!
//! After the last round everybody has heard, directly or not, from everybody (dissemination
//! barrier: Hensgen, Finkel and Manber, 1988). Telling is a store to a word of the other's page, or
//! a signal to it where the other is on another host.
//!
//! ```text
//! page   a word for each round, set by who tells
//!        a word for the barriers that its node has passed
//!        a word for each node, for the barriers that one of another host had passed when it left
//! ```

use std::{
    hint::spin_loop,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use pangea_rdma::{Fabric, Mapping, NodeId, Region, RemoteAddr, bootstrap::local::NODES_MAX};

use crate::{
    Error, Result,
    progress::first_gone,
    transfer::{drive, signal},
};

/// Bytes between the words of two rounds: two cache lines of x86, one of Apple silicon.
const ROUND_BYTES: u64 = 128;
/// The place, behind those of all rounds, of the word that counts the barriers a node has passed.
const PASSED: u32 = u16::BITS;
/// Offset of the words for nodes of other hosts.
const FAREWELLS: u16 = (16 + 1) * 128;
/// Bytes of the page with a node's words.
pub(crate) const PAGE_LEN: usize = FAREWELLS as usize + 8 * NODES_MAX as usize;

const _: () = assert!(FAREWELLS as u64 == (PASSED as u64 + 1) * ROUND_BYTES);
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
    // The region that holds the page of a node, on every node.
    region: Region,
    // By node; `None` for those of other hosts.
    pages: Vec<Option<Arc<Mapping>>>,
    // Barriers that this node has passed.
    passed: Mutex<u64>,
}

impl Barrier {
    pub(crate) fn new(region: Region, pages: Vec<Option<Arc<Mapping>>>) -> Self {
        Self { region, pages, passed: Mutex::new(0) }
    }

    /// Waits until every node has come here as often as this one.
    ///
    /// One that has failed can be tried again: it goes on where it was. What comes meanwhile goes
    /// to `take`.
    pub(crate) fn wait(
        &self,
        fabric: &dyn Fabric,
        take: &mut dyn FnMut(),
        deadline: Deadline,
    ) -> Result {
        let mut passed = self.turn(deadline)?;
        let number = *passed + 1;
        let nodes = u32::from(fabric.nodes());
        let rounds = (0..u16::BITS).take_while(|round| 1 << round < nodes);
        for round in rounds {
            self.pass_round(&mut Round { fabric, take, round, number, deadline })?;
        }
        if let Some(word) = self.word(fabric.node(), PASSED) {
            word.tell(number);
        }
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

    fn pass_round(&self, round: &mut Round<'_>) -> Result {
        let Round { fabric, number, .. } = *round;
        let (nodes, node) = (u32::from(fabric.nodes()), u32::from(fabric.node().number()));
        let step = 1 << round.round;
        let peer = |number: u32| NodeId::new(u16::try_from(number % nodes).expect("a node"));
        let (to, from) = (peer(node + step), peer(node + nodes - step));
        self.tell(to, round)?;
        let Some(word) = self.word(fabric.node(), round.round) else {
            unreachable!("a node maps its own page")
        };
        let told_at_once = (0..LOOKS).any(|_| {
            let has_heard = word.has_heard(number);
            if !has_heard {
                spin_loop();
            }
            has_heard
        });
        if self.word(to, PASSED).is_some() {
            fabric.ring(to);
        }
        if told_at_once {
            return Ok(());
        }
        let (start, mut lost) = (Instant::now(), None);
        drive(fabric, round.take, round.deadline.instant(), &mut || {
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

    /// Tells `to` that this node has come.
    fn tell(&self, to: NodeId, round: &mut Round<'_>) -> Result {
        if let Some(word) = self.word(to, round.round) {
            word.tell(round.number);
            return Ok(());
        }
        let offset = u64::from(round.round) * ROUND_BYTES;
        let target = RemoteAddr { node: to, region: self.region, offset };
        signal(round.fabric, round.take, target, round.number)
    }

    /// Tells the nodes of other hosts, before this one leaves, which barriers it has passed: then
    /// they need not miss it there.
    pub(crate) fn say_farewell(&self, fabric: &dyn Fabric, take: &mut dyn FnMut()) {
        let passed = *self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = farewell_of(fabric.node());
        for node in NodeId::all(fabric.nodes()).filter(|&node| self.word(node, PASSED).is_none()) {
            // A node that is gone needs no farewell.
            _ = signal(fabric, take, RemoteAddr { node, region: self.region, offset }, passed);
        }
    }

    /// A node that is gone and has not passed the barrier: nobody can pass it.
    fn missing(&self, fabric: &dyn Fabric, number: u64) -> Option<NodeId> {
        if fabric.epoch() == 1 {
            return None;
        }
        let own = self.pages[fabric.node().index()].as_ref();
        let has_passed = |node: NodeId| {
            let farewell = || Some(RoundWord(own?.word(farewell_of(node)).ok()?));
            let word = self.word(node, PASSED).or_else(farewell);
            word.is_some_and(|word| word.has_heard(number))
        };
        first_gone(fabric, &|node| !has_passed(node))
    }

    /// A word of the page of `node`, if that is on this host.
    fn word(&self, node: NodeId, round: u32) -> Option<RoundWord<'_>> {
        let page = self.pages[node.index()].as_ref()?;
        let word = page.word(u64::from(round) * ROUND_BYTES);
        Some(RoundWord(word.expect("a page has a word for each round")))
    }
}

/// Offset, in the page of a node, of the word for `node` of another host.
fn farewell_of(node: NodeId) -> u64 {
    u64::from(FAREWELLS) + 8 * u64::from(node.number())
}

/// A node's part in one round of a barrier.
struct Round<'a> {
    fabric: &'a dyn Fabric,
    take: &'a mut dyn FnMut(),
    round: u32,
    number: u64,
    deadline: Deadline,
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
