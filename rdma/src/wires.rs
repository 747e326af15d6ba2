//! Reaching nodes of other hosts: who reads the links, who waits for them, who hears nothing more.
//!
//! One thread at a time leads: it reads all links, serves what peers ask, and blocks in the system
//! when nothing comes. The others find what is theirs in `arrived`, or where they look for it.

mod lead;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

pub(crate) use self::lead::Lead;
use crate::{
    Completion, NodeId, Request, Result, Token, Way,
    agent::Agent,
    bell::Bell,
    bootstrap::Connection,
    cable::Cable,
    links::{Found, Role},
    primitive::{AtomicU32, Ordering},
    reliable::Native,
    roster::Roster,
    turn::Turn,
};

/// What has come, and waits to be polled.
#[derive(Debug)]
pub(crate) enum Arrived {
    Done(Token, Result<u64>),
    Message(NodeId, Box<[u8]>),
}

impl Arrived {
    /// Keeps `completion` until it is polled.
    pub(crate) fn keep(completion: Completion<'_>) -> Self {
        match completion {
            Completion::Done { token, result } => Self::Done(token, result),
            Completion::Message { source, message } => Self::Message(source, message.into()),
        }
    }

    /// Hands it out.
    pub(crate) fn hand_to(self, sink: &mut dyn FnMut(Completion<'_>)) {
        match self {
            Self::Done(token, result) => sink(Completion::Done { token, result }),
            Self::Message(source, message) => {
                sink(Completion::Message { source, message: &message });
            }
        }
    }
}

/// A node's links to those of other hosts.
#[derive(Debug)]
pub(crate) struct Wires {
    pub(crate) agent: Agent,
    // By node: what its devices do by themselves.
    natives: Vec<Option<Native>>,
    pub(crate) lead: Turn<Lead>,
    // Held while polling: what comes is handed out by one thread at a time, in order.
    polling: Turn<()>,
    arrived: Mutex<VecDeque<Arrived>>,
    // Entries of `arrived`, to look without its lock.
    arrived_count: AtomicU32,
}

/// What there is to a peer of another host.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) connection: Connection,
    /// RDMA, beside the connection: one cable at least, the main one first; or why there is none.
    pub(crate) cables: Result<Vec<Cable>, String>,
}

impl Wire {
    /// What is used to reach a node on `host`, and why.
    pub(crate) fn describe(&self, host: &str) -> Way {
        let Self { connection, cables } = self;
        let (name, reason) = match cables {
            Ok(cables) => {
                let joined = |part: fn(&Cable) -> &str| {
                    cables.iter().map(part).collect::<Vec<_>>().join(" and ")
                };
                let is_native = cables.iter().all(|cable| cable.native.is_some());
                let kind = if is_native { "" } else { ", unreliable" };
                let name = format!("RDMA by {}{kind}", joined(|cable| &cable.device));
                (name, format!("to {host}, proven at {}", joined(|cable| &cable.proof)))
            }
            Err(why) => {
                let name = if connection.cipher.is_some() { "TCP, encrypted" } else { "TCP" };
                (name.to_owned(), format!("to {host}, {}; no RDMA: {why}", connection.reason))
            }
        };
        Way { name: name.into(), reason: reason.into() }
    }
}

impl Wires {
    /// The links that go by `wires`, by node; `bell` wakes who blocks on them.
    pub(crate) fn new(roster: Arc<Roster>, wires: Vec<Option<Wire>>, bell: Bell) -> Result<Self> {
        let mut lead = Lead::new(bell)?;
        let (mut outlets, mut watches, mut natives) = (Vec::new(), Vec::new(), Vec::new());
        for (peer, wire) in NodeId::all(roster.nodes()).zip(wires) {
            let (mut links, mut watch, mut native) = (Vec::new(), None, None);
            if let Some(Wire { connection, cables }) = wire {
                let role = if cables.is_ok() { Role::Watch } else { Role::Main };
                let outlet = lead.connect(peer, connection, role)?;
                match cables {
                    Ok(cables) => {
                        watch = Some(outlet);
                        for cable in cables {
                            let role = match links.len() {
                                0 => Role::Main,
                                number => Role::Stripe(number),
                            };
                            lead.add(peer, cable.inlet, role)?;
                            links.push(cable.outlet);
                            native = native.or(cable.native);
                        }
                    }
                    Err(_) => links.push(outlet),
                }
            }
            outlets.push(links);
            watches.push(watch);
            natives.push(native);
        }
        Ok(Self {
            agent: Agent::new(roster, outlets, watches),
            natives,
            lead: Turn::new(lead),
            polling: Turn::new(()),
            arrived: Mutex::default(),
            arrived_count: AtomicU32::new(0),
        })
    }

    /// Starts a request to `peer`; `false` where there is no room for it until another ends.
    ///
    /// # Safety
    ///
    /// As for [`Fabric::post`](crate::Fabric::post).
    pub(crate) unsafe fn post(&self, peer: NodeId, request: &Request) -> bool {
        if let Some(native) = self.natives.get(peer.index()).and_then(Option::as_ref)
            // Else the devices would overtake it: the peer's agent does atomics and signals.
            && self.agent.has_settled(peer)
        {
            if self.agent.settle(request) {
                return true;
            }
            // SAFETY: passed on to the caller.
            if let Some(is_posted) = unsafe { native.post(request) } {
                return is_posted;
            }
        }
        // SAFETY: passed on to the caller.
        unsafe { self.agent.post(peer, request) }
    }

    /// Whether reads and writes of the memory of `peer` need none of its threads, unless they
    /// follow what does.
    pub(crate) fn is_native(&self, peer: NodeId) -> bool {
        self.natives.get(peer.index()).is_some_and(Option::is_some)
    }

    /// Hands out what has come before; where that is nothing, what comes now, if nobody else leads.
    pub(crate) fn poll(&self, sink: &mut dyn FnMut(Completion<'_>)) -> Found {
        let Some(_polling) = self.polling.take() else { return Found::default() };
        // Before what has come is handed out: who leads in between would gather what came after it,
        // and before what this thread then reads.
        let lead = self.lead.take();
        let sink = &mut |completion: Completion<'_>| {
            let source = completion.source();
            sink(completion);
            source.inspect(|&source| _ = self.agent.hand_out(source));
        };
        let count = self.hand_out(sink);
        // What came before is worth more than another look, which the next poll has.
        let Some(mut lead) = lead.filter(|_| count == 0) else {
            return Found { count, ..Found::default() };
        };
        let mut found = lead.pump(&self.agent, Instant::now(), sink);
        found.count += self.hand_out(sink);
        found
    }

    fn hand_out(&self, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        let mut count = 0;
        while let Some(arrived) = self.take_arrived() {
            arrived.hand_to(sink);
            count += 1;
        }
        while let Some((token, result)) = self.agent.take_done() {
            sink(Completion::Done { token, result });
            count += 1;
        }
        count
    }

    /// Reads the links once, for later, when the time is `now`.
    pub(crate) fn gather(&self, lead: &mut Lead, now: Instant) -> Found {
        lead.pump(&self.agent, now, &mut self.keeper())
    }

    /// Keeps completions until they are polled.
    fn keeper(&self) -> impl FnMut(Completion<'_>) {
        |completion| {
            self.arrived().push_back(Arrived::keep(completion));
            // Release: pairs with the Acquire in `has_arrived`.
            self.arrived_count.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether something can be handed out.
    pub(crate) fn has_arrived(&self) -> bool {
        // Acquire: pairs with the Release in `gather`.
        self.arrived_count.load(Ordering::Acquire) != 0 || self.agent.has_done()
    }

    fn take_arrived(&self) -> Option<Arrived> {
        // Acquire: pairs with the Release in `gather`.
        if self.arrived_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let arrived = self.arrived().pop_front();
        if arrived.is_some() {
            // Relaxed: a count too high is a look too many.
            self.arrived_count.fetch_sub(1, Ordering::Relaxed);
        }
        arrived
    }

    fn arrived(&self) -> MutexGuard<'_, VecDeque<Arrived>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives signs of life where it is time to, and takes for lost who gives none; whether there
    /// was one.
    pub(crate) fn beat(&self, lead: &mut Lead, now: Instant) -> bool {
        lead.beat(&self.agent, now, &mut self.keeper())
    }

    /// Blocks until something comes, until `deadline` at most, unless `ready` already.
    pub(crate) fn block(
        &self,
        lead: &mut Lead,
        deadline: Instant,
        ready: &mut dyn FnMut() -> bool,
    ) {
        lead.block(&self.agent, deadline, ready);
    }

    /// Goes on until all that was sent has arrived, or until `deadline`.
    pub(crate) fn linger(&self, lead: &mut Lead, deadline: Instant) {
        let mut now = Instant::now();
        while !lead.is_quiet() && now < deadline {
            self.gather(lead, now);
            now = Instant::now();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
