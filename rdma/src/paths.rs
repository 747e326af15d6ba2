//! One fabric out of several ways: shared memory to the nodes of this host, wires to the others.

use std::{
    sync::Arc,
    thread::{self, ScopedJoinHandle},
    time::{Duration, Instant},
};

use crate::{
    Capabilities, Choice, Completion, Fabric, Mapping, NodeId, Path, PeerMemory, Presence, Region,
    Request, Result, Way,
    bell::Bell,
    bootstrap::{Connection, Meeting},
    cable::Ports,
    fabric::await_region,
    primitive::{AtomicU32, AtomicU64, Ordering},
    roster::Roster,
    shm::Shm,
    wait::Doorbell,
    wires::{Lead, Wire, Wires},
};

/// How long who stands aside does so before it looks again, at least and at most, by how long it
/// has: peers that ask for something when the last claim is over wait for that.
const ASIDE: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(1));
/// How long who wants to lead waits for a leader to stop.
const TURN: Duration = Duration::from_millis(1);
/// Why there is no connection to a node.
const NO_NETWORK: &str = "the nodes have met on this host, without a network; set \
                          PANGEA_COORDINATOR to HOST:PORT, where they are to meet";
/// How long a node that leaves sees to what it has sent last.
pub(crate) const LINGER: Duration = Duration::from_millis(500);

/// A node's end of all the ways by which it reaches the others.
#[derive(Debug)]
pub struct Paths {
    roster: Arc<Roster>,
    shm: Shm,
    wires: Wires,
    // Through which the devices of peers know this node's memory; they outlive the wires.
    ports: Ports,
    // By node: reached by shared memory.
    is_near: Vec<bool>,
    // By node: how it is reached, and why so.
    ways: Vec<Way>,
    // Set by `wake`, taken by `wait`.
    is_woken: AtomicU32,
    // Threads that lead, or want to, until something of their own has come.
    claims: AtomicU32,
    // How often one began to.
    claimed: AtomicU64,
    // Rung when none does any more.
    vacant: Doorbell,
}

impl Paths {
    /// Joins the nodes that have met, until `deadline` at most, on the ways that `choice` allows.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](crate::Error::Config) where a node cannot be reached so.
    pub fn connect(meeting: Meeting, choice: Choice, deadline: Instant) -> Result<Self> {
        let Meeting { node, nodes, mut sockets, connections, hosts, lifeline } = meeting;
        if !choice.allows_shm() {
            sockets.fill_with(|| None);
        }
        let mut is_near: Vec<bool> = sockets.iter().map(Option::is_some).collect();
        is_near[node.index()] = true;
        let far = connections.into_iter().zip(&is_near);
        let connections = far.map(|(connection, is_near)| connection.filter(|_| !is_near));
        let (ports, wires) = find_wires(node, connections.collect(), choice)?;
        let mut ways = Vec::new();
        for peer in NodeId::all(nodes) {
            ways.push(match &wires[peer.index()] {
                _ if peer == node => Way::ITSELF,
                Some(wire) => wire.describe(&hosts[peer.index()]),
                None if is_near[peer.index()] => Way::SHM,
                None => return Err(choice.refuse(peer, NO_NETWORK)),
            });
        }
        let roster = Arc::new(Roster::new(node, nodes, lifeline));
        roster.report_ways(&ways);
        let (bell, rope) = Bell::new()?;
        Ok(Self {
            shm: Shm::reach(roster.clone(), sockets, Some(rope), deadline)?,
            wires: Wires::new(roster.clone(), wires, bell)?,
            ports,
            roster,
            is_near,
            ways,
            is_woken: AtomicU32::new(0),
            claims: AtomicU32::new(0),
            claimed: AtomicU64::new(0),
            vacant: Doorbell::default(),
        })
    }

    fn is_near(&self, peer: NodeId) -> bool {
        self.is_near.get(peer.index()).copied().unwrap_or(true)
    }

    /// Leads until `ready`, or until `deadline`: looks for a while, if that pays, then blocks.
    fn lead(&self, lead: &mut Lead, deadline: Instant, ready: &mut dyn FnMut() -> bool) -> bool {
        let (mut looks_since, mut waits_since): (Option<Instant>, Option<Instant>) = (None, None);
        loop {
            let now = Instant::now();
            let has_lost = self.wires.beat(lead, now);
            let found = self.wires.gather(lead, now);
            if found.has_signalled || has_lost {
                self.shm.ring(self.roster.node());
            }
            if found.has_room {
                // Who wants to send may stand aside.
                self.vacant.ring();
            }
            if found.bytes > 0 {
                if let Some(since) = looks_since.take() {
                    lead.spin.has_paid(now - since);
                }
                if let Some(since) = waits_since.take() {
                    lead.spin.has_waited(now - since);
                }
            }
            if ready() {
                return true;
            }
            if now >= deadline {
                return false;
            }
            waits_since.get_or_insert(now);
            if now - *looks_since.get_or_insert(now) < lead.spin.allowance() {
                continue;
            }
            lead.spin.was_in_vain();
            self.shm.listen();
            // What came before that has called nobody.
            self.call_aside(lead);
            self.wires.block(lead, deadline, ready);
            self.shm.stop_listening();
            self.call_aside(lead);
            // What woke this thread may be followed by more.
            looks_since = None;
        }
    }

    /// Wakes who stands aside for what this thread, which leads, need not look at: what has come on
    /// this host, and losses.
    fn call_aside(&self, lead: &mut Lead) {
        let epoch = self.roster.epoch();
        if self.shm.has_arrived_near() || lead.told != epoch {
            lead.told = epoch;
            self.vacant.wake();
        }
    }

    /// Leaves the lead to threads that wait for something of their own, while there are any and for
    /// a moment after, or until `deadline`, or until `is_called`.
    fn stand_aside(&self, deadline: Instant, is_called: &mut dyn FnMut() -> bool) {
        let since = Instant::now();
        let mut now = since;
        // Relaxed, all: how long to stand aside is a guess; who leads is settled by the turn.
        let mut claimed = self.claimed.load(Ordering::Relaxed);
        let mut is_busy = self.claims.load(Ordering::Relaxed) != 0;
        while is_busy && now < deadline && !is_called() {
            thread::sleep(((now - since) / 8).clamp(ASIDE.0, ASIDE.1));
            let now_claimed = self.claimed.load(Ordering::Relaxed);
            let is_same = now_claimed == claimed;
            is_busy = !is_same || self.claims.load(Ordering::Relaxed) != 0;
            if is_busy && is_same {
                // One of them waits for long.
                self.vacant.sleep(deadline, &mut || {
                    self.claims.load(Ordering::Relaxed) == 0 || is_called()
                });
                is_busy = self.claims.load(Ordering::Relaxed) != 0;
            }
            claimed = now_claimed;
            now = Instant::now();
        }
    }

    /// Whether there is something that `wait` is to return for.
    fn is_called(&self, epoch: u64) -> bool {
        self.wires.has_arrived()
            || self.wires.agent.has_room_again()
            || self.shm.has_arrived_near()
            || self.roster.epoch() != epoch
            // Relaxed: taken by `take_call`.
            || self.is_woken.load(Ordering::Relaxed) != 0
    }

    fn take_call(&self) {
        // Acquire: pairs with the Release in `wake`.
        self.is_woken.swap(0, Ordering::Acquire);
    }
}

impl Fabric for Paths {
    fn node(&self) -> NodeId {
        self.roster.node()
    }

    fn nodes(&self) -> u16 {
        self.roster.nodes()
    }

    fn capabilities(&self, peer: NodeId) -> Capabilities {
        let is_near = self.is_near(peer);
        Capabilities { mapped: is_near, one_sided: is_near || self.wires.is_native(peer) }
    }

    fn register(&self, memory: Arc<Mapping>) -> Result<Region> {
        let region = self.shm.register(memory.clone())?;
        self.ports.share(region, &memory);
        self.wires.agent.register(region, memory)?;
        Ok(region)
    }

    fn region(&self, peer: NodeId, region: Region, deadline: Instant) -> Result<PeerMemory> {
        if self.is_near(peer) {
            return self.shm.region(peer, region, deadline);
        }
        await_region(self, (peer, region), deadline, &|| self.wires.agent.region_len(peer, region))
    }

    fn attach(&self, peer: NodeId, region: Region, memory: Arc<Mapping>) {
        self.shm.attach(peer, region, memory);
    }

    unsafe fn post(&self, batch: &[Request]) -> Result<usize> {
        for (count, request) in batch.iter().enumerate() {
            let peer = request.op.node();
            let is_posted = if self.is_near(peer) {
                // SAFETY: passed on to the caller.
                unsafe { self.shm.post(&batch[count..=count]) }? == 1
            } else {
                // SAFETY: passed on to the caller.
                unsafe { self.wires.post(peer, request) }
            };
            if !is_posted {
                return Ok(count);
            }
        }
        Ok(batch.len())
    }

    fn poll(&self, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        let near = self.shm.poll(sink);
        let far = self.wires.poll(sink);
        if far.has_signalled {
            self.shm.ring(self.roster.node());
        }
        if far.has_room {
            self.vacant.ring();
        }
        near + far.count
    }

    fn wait(&self, epoch: u64, deadline: Instant) -> bool {
        self.stand_aside(deadline, &mut || self.is_called(epoch));
        let Some(mut lead) = self.wires.lead.take() else { return self.is_called(epoch) };
        let is_called = self.lead(&mut lead, deadline, &mut || {
            // Relaxed: see `stand_aside`.
            self.is_called(epoch) || self.claims.load(Ordering::Relaxed) != 0
        });
        drop(lead);
        // Relaxed: see `stand_aside`.
        if self.claims.load(Ordering::Relaxed) != 0 {
            self.shm.ring(self.roster.node());
        }
        self.take_call();
        is_called
    }

    fn wake(&self) {
        // Release: pairs with the Acquire in `take_call`.
        self.is_woken.store(1, Ordering::Release);
        self.shm.ring_all();
        self.vacant.ring();
    }

    fn has_arrived(&self) -> bool {
        self.wires.has_arrived()
    }

    fn wait_until(&self, deadline: Instant, ready: &mut dyn FnMut() -> bool) -> bool {
        if ready() {
            return true;
        }
        // Relaxed, both: see `stand_aside`.
        self.claims.fetch_add(1, Ordering::Relaxed);
        self.claimed.fetch_add(1, Ordering::Relaxed);
        let is_ready = loop {
            if let Some(mut lead) = self.wires.lead.take() {
                break self.lead(&mut lead, deadline, ready);
            }
            // The leader stops when it sees the claim.
            self.shm.ring_all();
            let patience = deadline.min(Instant::now() + TURN);
            let lead = &self.wires.lead;
            self.shm.wait_until(patience, &mut || ready() || !lead.is_taken());
            if ready() {
                break true;
            }
            if Instant::now() >= deadline {
                break false;
            }
        };
        // Relaxed: see `stand_aside`; the doorbell orders it for who sleeps.
        if self.claims.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.vacant.ring();
        }
        is_ready
    }

    fn ring(&self, peer: NodeId) {
        self.shm.ring(peer);
    }

    fn epoch(&self) -> u64 {
        self.roster.epoch()
    }

    fn presence(&self, peer: NodeId) -> Presence {
        self.roster.presence(peer)
    }

    fn way(&self, peer: NodeId) -> &Way {
        &self.ways[peer.index()]
    }
}

impl Drop for Paths {
    fn drop(&mut self) {
        // A node that panics dies: it has not done what the others count on.
        if thread::panicking() {
            return;
        }
        self.wires.agent.say_goodbye();
        if let Some(mut lead) = self.wires.lead.take() {
            self.wires.linger(&mut lead, Instant::now() + LINGER);
        }
    }
}

/// The wires to the peers at the other ends of `connections`, and this node's ports. All peers are
/// asked at once, each by a thread.
fn find_wires(
    node: NodeId,
    connections: Vec<Option<Connection>>,
    choice: Choice,
) -> Result<(Ports, Vec<Option<Wire>>)> {
    let ports = match choice.path {
        Path::Auto | Path::Verbs => Ports::look(node)?,
        other => Ports::none(node, &format!("'{other}' was chosen")),
    };
    let find = |peer: NodeId, mut connection: Connection| {
        let found = ports.connect(peer, &mut connection)?;
        connection.settle()?;
        let must = choice.requires_rdma || choice.path == Path::Verbs;
        match found {
            Err(why) if choice.path == Path::Shm || must => Err(choice.refuse(peer, &why)),
            Err(why) => Ok(Wire { connection, cables: Err(why) }),
            Ok(cables) => Ok(Wire { connection, cables: Ok(cables) }),
        }
    };
    let ways = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (peer, connection) in NodeId::all(u16::MAX).zip(connections) {
            let find = &find;
            threads.push(connection.map(|connection| scope.spawn(move || find(peer, connection))));
        }
        let join = |thread: Option<ScopedJoinHandle<'_, Result<Wire>>>| {
            let Some(thread) = thread else { return Ok(None) };
            thread.join().expect("finding a wire does not panic").map(Some)
        };
        // Each ends by itself: they are joined even where one has failed.
        threads.into_iter().map(join).collect::<Vec<_>>()
    });
    Ok((ports, ways.into_iter().collect::<Result<_>>()?))
}

#[cfg(all(test, not(loom)))]
mod tests;
