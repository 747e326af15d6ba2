//! Who leads: reads the links, serves what peers ask, hears who is alive, and blocks in the system
//! when nothing comes.

use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Registry, Token, unix::SourceFd};

use crate::{
    Completion, Error, NodeId, Result,
    agent::Agent,
    bell::Bell,
    bootstrap::Connection,
    links::{BEAT, Found, Link, Links, Role},
    spin::Spin,
    stream::{Inlet, Outlet},
    tcp,
};

/// Connections that are looked at one by one; of more, those that the system names.
const LOOKED_AT_MAX: usize = 4;
/// How long what is polled is read before the system is asked about the watches beside it, which
/// costs as much as some operations take.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// The name of the bell among the links, which are named by their nodes.
const BELL: Token = Token(usize::MAX);

/// What the leader has.
#[derive(Debug)]
pub(crate) struct Lead {
    poll: Poll,
    events: Events,
    links: Links,
    // When the system is to be asked again.
    next_look: Instant,
    pub(crate) spin: Spin,
    // Rung to wake who blocks.
    bell: Bell,
    /// The epoch of which those who stand aside were told last.
    pub(crate) told: u64,
}

impl Lead {
    /// One without links, which `bell` wakes.
    pub(super) fn new(bell: Bell) -> Result<Self> {
        let poll = Poll::new().map_err(Error::os("epoll_create"))?;
        let source = bell.descriptor();
        let registered = poll.registry().register(&mut SourceFd(&source), BELL, Interest::READABLE);
        registered.map_err(Error::os("epoll_ctl"))?;
        Ok(Self {
            poll,
            events: Events::with_capacity(64),
            links: Links::new(Vec::new(), Instant::now() + BEAT, tell),
            next_look: Instant::now(),
            spin: Spin::default(),
            bell,
            told: 0,
        })
    }

    /// Adds the link over `connection`; returns the end that sends.
    pub(super) fn connect(
        &mut self,
        peer: NodeId,
        connection: Connection,
        role: Role,
    ) -> Result<Box<dyn Outlet>> {
        let ends = tcp::ends(connection, self.poll.registry(), name_of(peer));
        let (outlet, inlet) = ends.map_err(Error::os("preparing a socket"))?;
        self.links.push(Link::new(peer, inlet, role));
        Ok(outlet)
    }

    /// Adds the link that comes out at `inlet`.
    pub(super) fn add(&mut self, peer: NodeId, inlet: Box<dyn Inlet>, role: Role) -> Result {
        listen(self.poll.registry(), &*inlet, name_of(peer))?;
        self.links.push(Link::new(peer, inlet, role));
        Ok(())
    }

    /// Reads every link that may have something, once, and answers, when the time is `now`.
    pub(super) fn pump(
        &mut self,
        agent: &Agent,
        now: Instant,
        sink: &mut dyn FnMut(Completion<'_>),
    ) -> Found {
        let is_told_of = |link: &&mut Link| !link.inlet.is_polled() && !link.is_watch();
        let looks_at_all = self.links.iter_mut().filter(is_told_of).count() <= LOOKED_AT_MAX;
        if !looks_at_all || now >= self.next_look {
            self.next_look = now + LOOK_INTERVAL;
            self.look(agent, Some(Duration::ZERO));
        }
        let may = |link: &Link| {
            link.is_ready || link.inlet.is_polled() || looks_at_all && !link.is_watch()
        };
        self.links.read(agent, may, sink)
    }

    /// Blocks until something comes, until `deadline` at most, unless `ready` already.
    pub(super) fn block(
        &mut self,
        agent: &Agent,
        deadline: Instant,
        ready: &mut dyn FnMut() -> bool,
    ) {
        let has_come = self.links.iter_mut().any(|link| link.inlet.arm());
        if has_come || ready() {
            return;
        }
        let wakes = self.links.iter_mut().filter_map(|link| link.inlet.wake_at());
        let end = wakes.min().into_iter().fold(deadline.min(self.links.next_beat()), Instant::min);
        self.look(agent, Some(end.saturating_duration_since(Instant::now())));
    }

    /// Asks the system which links have something, or room again.
    fn look(&mut self, agent: &Agent, timeout: Option<Duration>) {
        let Self { poll, events, links, bell, .. } = self;
        if poll.poll(events, timeout).is_err() {
            return;
        }
        for event in &*events {
            if event.token() == BELL {
                bell.hush();
            }
            for link in links.iter_mut().filter(|link| name_of(link.peer) == event.token()) {
                link.is_ready |= event.is_readable() || event.is_read_closed() || event.is_error();
                if event.is_writable() {
                    agent.flush(link.peer);
                }
            }
        }
    }

    /// Gives signs of life where it is time to, and takes for lost who gives none; whether there
    /// was one.
    pub(super) fn beat(
        &mut self,
        agent: &Agent,
        now: Instant,
        sink: &mut dyn FnMut(Completion<'_>),
    ) -> bool {
        self.links.beat(agent, now, sink)
    }

    /// Whether all that was sent has arrived, as far as that can be told.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.links.iter_mut().all(|link| link.inlet.is_quiet())
    }
}

/// Beside the error that a program gets, which does not say why.
fn tell(peer: NodeId, what: &str) {
    eprintln!("pangea: {peer}: {what}");
}

fn name_of(peer: NodeId) -> Token {
    Token(peer.index())
}

/// Makes the system tell, under `name`, when something comes that the device tells of.
fn listen(registry: &Registry, inlet: &dyn Inlet, name: Token) -> Result {
    let Some(descriptor) = inlet.descriptor() else { return Ok(()) };
    let source = &mut SourceFd(&descriptor);
    registry.register(source, name, Interest::READABLE).map_err(Error::os("epoll_ctl"))
}
