//! A node of a simulated cluster: what it is over any other wire, but for threads and sockets.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use super::{
    cable::{self, Cable, Mail, World},
    occasion::Occasion,
};
use crate::{
    Completion, Error, MESSAGE_LEN_MAX, MESSAGES_MAX, Mapping, Moment, NodeId, Op, Presence,
    Region, Request, Result, Token,
    agent::Agent,
    frames,
    link::{self, Identity, Settings},
    links::{BEAT, Link, Links, Role},
    regions::Regions,
    roster::Roster,
    stream::Outlet,
    wires::Arrived,
};

/// Names the links of all simulated clusters.
const CLUSTER: u64 = 0x0051_AB1E;

#[derive(Debug)]
pub(super) struct Node {
    node: NodeId,
    world: Arc<Mutex<World>>,
    membership: u16,
    roster: Arc<Roster>,
    agent: Agent,
    links: Links,
    // Of this node alone.
    regions: Regions,
    arrived: VecDeque<Arrived>,
    // Messages of this node to itself among them; and whether one was refused since, for want of
    // room.
    own_messages: u32,
    is_own_refused: bool,
    // Something has come for which the program may wait, other than by polling.
    has_signalled: bool,
    // By node: when the link to it is to be looked at.
    timers: Vec<Option<Moment>>,
    is_leaving: bool,
}

impl Node {
    /// A node of a cluster of `nodes`, whose links keep `window` frames under way.
    pub(super) fn new(
        world: &Arc<Mutex<World>>,
        (node, nodes): (NodeId, u16),
        membership: u16,
        window: u16,
    ) -> Result<Self> {
        let (mut links, mut outlets) = (Vec::new(), Vec::new());
        for peer in NodeId::all(nodes) {
            if peer == node {
                outlets.push(Vec::new());
                continue;
            }
            let epoch = u64::from(membership);
            let identity = Identity { cluster: CLUSTER, epoch, source: node, target: peer };
            let settings =
                Settings { requests: window, replies: window, ..Settings::new(identity) };
            let link = link::Link::new(settings)?;
            let cable = Cable::new(world.clone(), (node, peer), membership, settings.slots());
            let (outlet, inlet) = frames::ends(cable, link);
            outlets.push(vec![Box::new(outlet) as Box<dyn Outlet>]);
            links.push(Link::new(peer, Box::new(inlet), Role::Main));
        }
        let watches = outlets.iter().map(|_| None).collect();
        let roster = Arc::new(Roster::new(node, nodes, None));
        let first_beat = cable::lock(world).time_within(BEAT);
        let this = Self {
            node,
            world: world.clone(),
            membership,
            agent: Agent::new(roster.clone(), outlets, watches),
            roster,
            links: Links::new(links, first_beat, |_, _| {}),
            regions: Regions::new(Region(0)),
            arrived: VecDeque::new(),
            own_messages: 0,
            is_own_refused: false,
            has_signalled: false,
            timers: vec![None; usize::from(nodes)],
            is_leaving: false,
        };
        this.wake_at(first_beat, Occasion::Beat { membership });
        Ok(this)
    }

    pub(super) fn register(&mut self, memory: Arc<Mapping>) -> Result<Region> {
        let agent = &self.agent;
        let region = self
            .regions
            .register(self.node, memory.clone(), &|region| agent.register(region, memory.clone()));
        self.set_timers();
        region
    }

    pub(super) fn region_len(&self, peer: NodeId, region: Region) -> Option<u64> {
        self.agent.region_len(peer, region)
    }

    /// Starts a request; `false` where there is no room for it until another ends.
    ///
    /// # Safety
    ///
    /// As for [`Fabric::post`](crate::Fabric::post).
    pub(super) unsafe fn post(&mut self, request: &Request) -> bool {
        let peer = request.op.node();
        if peer != self.node {
            // SAFETY: passed on to the caller.
            return unsafe { self.agent.post(peer, request) };
        }
        if matches!(request.op, Op::Send { .. }) {
            self.is_own_refused = self.own_messages == MESSAGES_MAX;
            if self.is_own_refused {
                return false;
            }
        }
        // SAFETY: passed on to the caller.
        let result = unsafe { self.carry_out(&request.op) };
        self.arrived.push_back(Arrived::Done(request.token, result));
        true
    }

    /// Does an operation of this node on itself.
    ///
    /// # Safety
    ///
    /// As for [`Fabric::post`](crate::Fabric::post).
    unsafe fn carry_out(&mut self, op: &Op) -> Result<u64> {
        let Op::Send { message, .. } = *op else {
            // SAFETY: passed on to the caller.
            return unsafe { self.regions.access(op) };
        };
        let (len, capacity) = (message.len() as u64, MESSAGE_LEN_MAX as u64);
        if len > capacity {
            return Err(Error::OutOfBounds { offset: 0, len, capacity });
        }
        // SAFETY: the caller vouches for `message`.
        let message = unsafe { message.as_ref() };
        self.arrived.push_back(Arrived::Message(self.node, message.into()));
        self.own_messages += 1;
        Ok(0)
    }

    /// Hands out what has come; how many that was.
    pub(super) fn poll(&mut self, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        let mut count = 0;
        while let Some(arrived) = self.take_arrived() {
            arrived.hand_to(sink);
            count += 1;
        }
        count
    }

    /// Whether a poll would find something.
    pub(super) fn has_arrived(&self) -> bool {
        !self.arrived.is_empty() || self.agent.has_done()
    }

    /// Whether a queue of messages that was full has room again.
    pub(super) fn has_room_again(&self) -> bool {
        let has_own = self.is_own_refused && self.own_messages < MESSAGES_MAX;
        has_own || self.agent.has_room_again()
    }

    /// Whether there is something for which its program may wait, since this was last asked.
    pub(super) fn has_news(&mut self) -> bool {
        mem::take(&mut self.has_signalled) || self.has_arrived()
    }

    /// What has come first.
    pub(super) fn take_arrived(&mut self) -> Option<Arrived> {
        let done = |(token, result): (Token, Result<u64>)| Arrived::Done(token, result);
        let arrived = self.arrived.pop_front().or_else(|| self.agent.take_done().map(done));
        if let Some(Arrived::Message(source, _)) = arrived {
            if source == self.node {
                self.own_messages -= 1;
            } else if self.agent.hand_out(source) {
                self.set_timers();
            }
        }
        arrived
    }

    pub(super) fn roster(&self) -> &Arc<Roster> {
        &self.roster
    }

    pub(super) fn presence(&self, peer: NodeId) -> Presence {
        self.roster.presence(peer)
    }

    pub(super) fn epoch(&self) -> u64 {
        self.roster.epoch()
    }

    /// Says goodbye. What was sent before still arrives. Whether the node is still there after it.
    pub(super) fn leave(&mut self, linger: Duration) -> bool {
        self.is_leaving = true;
        self.agent.say_goodbye();
        let end = cable::lock(&self.world).now() + linger;
        self.wake_at(end, Occasion::End { membership: self.membership });
        self.set_timers();
        self.is_here()
    }

    /// Whether the node is still there: it has not left, or what it has sent has not arrived.
    fn is_here(&mut self) -> bool {
        !self.is_leaving || self.links.iter_mut().any(|link| !link.inlet.is_quiet())
    }

    /// Does what an occasion is for. Whether the node is still there after it.
    pub(super) fn attend(&mut self, occasion: Occasion) -> bool {
        if occasion.membership() != self.membership {
            return true;
        }
        match occasion {
            Occasion::Beat { membership } => {
                let now = cable::lock(&self.world).now();
                let has_lost = self.links.beat(&self.agent, now, &mut keeper(&mut self.arrived));
                self.has_signalled |= has_lost;
                self.wake_at(self.links.next_beat(), Occasion::Beat { membership });
            }
            Occasion::Sent { peer, slot, .. } => self.take(peer, Mail::Sent(slot)),
            Occasion::Timer { peer, .. } => {
                let now = cable::lock(&self.world).network.now();
                // An earlier one has been planned since, perhaps, and a later one after that.
                let timer = &mut self.timers[peer.index()];
                *timer = timer.filter(|&timer| timer > now);
                self.read(peer);
            }
            Occasion::End { .. } => return false,
        }
        self.set_timers();
        self.is_here()
    }

    /// Takes in a frame of `peer`. Whether the node is still there after it.
    pub(super) fn receive(&mut self, peer: NodeId, frame: Vec<u8>) -> bool {
        self.take(peer, Mail::Frame(frame));
        self.set_timers();
        self.is_here()
    }

    fn take(&mut self, peer: NodeId, mail: Mail) {
        cable::lock(&self.world).mail(self.node, peer).push_back(mail);
        self.read(peer);
    }

    /// Looks at the link to `peer`.
    fn read(&mut self, peer: NodeId) {
        let mut keep = keeper(&mut self.arrived);
        let found = self.links.read(&self.agent, |link| link.peer == peer, &mut keep);
        self.has_signalled |= found.has_signalled || found.has_room;
        // Of a peer that is lost, nobody reads anything.
        cable::lock(&self.world).mail(self.node, peer).clear();
    }

    /// Sees to it that the node is woken when a link has to be looked at.
    pub(super) fn set_timers(&mut self) {
        let membership = self.membership;
        for link in self.links.iter_mut() {
            let Some(deadline) = link.inlet.wake_at() else { continue };
            let mut world = cable::lock(&self.world);
            let at = world.moment(deadline);
            let timer = &mut self.timers[link.peer.index()];
            if timer.is_none_or(|timer| at < timer) {
                *timer = Some(at);
                world.wake(self.node, at, Occasion::Timer { membership, peer: link.peer });
            }
        }
    }

    fn wake_at(&self, at: Instant, occasion: Occasion) {
        let mut world = cable::lock(&self.world);
        let at = world.moment(at);
        world.wake(self.node, at, occasion);
    }
}

/// Keeps what comes until it is polled.
fn keeper(arrived: &mut VecDeque<Arrived>) -> impl FnMut(Completion<'_>) {
    |completion| arrived.push_back(Arrived::keep(completion))
}
