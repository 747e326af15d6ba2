//! A node's links, as they are read, and how it is noticed that nobody is at the other end of one.
//!
//! A node gives a sign of life over every link at every *beat*. A link over which nothing has come
//! for as many beats as make [`SILENCE`] has lost its peer; a stripe that is silent while the main
//! link is not is given up earlier. They are this node's own beats: who has not looked for long
//! itself does not complain of others. Time is told by the caller.

use std::{
    mem,
    time::{Duration, Instant},
};

use crate::{
    Completion, Error, NodeId, Result,
    agent::{Agent, Correspondence},
    packet::Kind,
    roster::Departure,
    stream::{Inlet, Strict},
};

/// Between two signs of life.
pub(crate) const BEAT: Duration = Duration::from_millis(500);
/// A peer from which nothing comes for so long is lost, at the next beat.
pub(crate) const SILENCE: Duration = BEAT.saturating_mul(SILENT_BEATS);
/// The same in beats of the node that hears nothing.
pub(crate) const SILENT_BEATS: u32 = 6;
/// Beats without a sign of life after which a peer is told of no loss: if it is as silent as the
/// one that is lost, then perhaps it is this node that hears nothing.
const FAINT_BEATS: u32 = 3;
/// What people are told of a stripe: what is read of the peer comes more slowly from now on.
const GIVEN_UP: &str = "a cable to it carries nothing any more, and is done without";
/// Beats without a sign of life over a stripe, where the last brought one over the main link.
const SILENT_STRIPE_BEATS: u32 = 3;

/// What a look at the links has found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    /// What was handed to the program.
    pub(crate) count: usize,
    /// Bytes that came, whoever they are for.
    pub(crate) bytes: usize,
    /// Something has come for which somebody may wait: a word was written, a region announced, a
    /// node lost.
    pub(crate) has_signalled: bool,
    /// A queue of messages may have room again.
    pub(crate) has_room: bool,
}

/// Tells people what happened on the way to a peer.
pub(crate) type Tell = fn(NodeId, &str);

/// All links of a node.
#[derive(Debug)]
pub(crate) struct Links {
    links: Vec<Link>,
    next_beat: Instant,
    tell: Tell,
    // The peers of stripes that broke since the last beat: they may be about to end.
    given_up: Vec<NodeId>,
}

/// What a link to a peer is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    /// All goes over it that has an order; without it, the peer is lost.
    Main,
    /// Reads go over it too; without it, they go over the main one. Numbered from one.
    Stripe(usize),
    /// Only signs of life and of death go over it; without it, the peer is lost.
    Watch,
}

/// A link, as it is read.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) peer: NodeId,
    pub(crate) inlet: Box<dyn Inlet>,
    /// Something may be there.
    pub(crate) is_ready: bool,
    role: Role,
    // Something has come since the last beat; and how many beats before that nothing had.
    is_heard: bool,
    silent_beats: u32,
}

impl Link {
    pub(crate) fn new(peer: NodeId, inlet: Box<dyn Inlet>, role: Role) -> Self {
        Self { peer, inlet, is_ready: true, role, is_heard: true, silent_beats: 0 }
    }

    /// Whether it only tells whether the peer is there.
    pub(crate) fn is_watch(&self) -> bool {
        self.role == Role::Watch
    }
}

impl Links {
    pub(crate) fn new(links: Vec<Link>, first_beat: Instant, tell: Tell) -> Self {
        Self { links, next_beat: first_beat, tell, given_up: Vec::new() }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.links.iter_mut()
    }

    /// Adds a link.
    pub(crate) fn push(&mut self, link: Link) {
        self.links.push(link);
    }

    /// When the next sign of life is due.
    pub(crate) fn next_beat(&self) -> Instant {
        self.next_beat
    }

    /// Reads every link that `may` have something, once, and answers.
    pub(crate) fn read(
        &mut self,
        agent: &Agent,
        may: impl Fn(&Link) -> bool,
        sink: &mut dyn FnMut(Completion<'_>),
    ) -> Found {
        let mut found = Found::default();
        let mut gone = Vec::new();
        let Self { links, given_up, tell, .. } = self;
        links.retain_mut(|link| {
            // One that is lost by hearsay is not read any more: its requests have ended, and what
            // its packets were to be written to is not the fabric's.
            let is_lost = agent.has_lost(link.peer);
            if !is_lost && !may(link) {
                return true;
            }
            let departure = match is_lost {
                true => Some(Departure::Died),
                false => link.read(agent, sink, &mut found).unwrap_or_else(|error| {
                    // That a connection has ended says no more than that its peer has.
                    if matches!(error, Error::Protocol { .. }) {
                        tell(link.peer, &error.to_string());
                    }
                    Some(Departure::Died)
                }),
            };
            let Some(departure) = departure else { return true };
            found.count += link.close(agent, sink);
            match (link.role, departure) {
                // It may be read of on its other link before: what it wrote is on that.
                (Role::Watch, Departure::Left) => {}
                (Role::Stripe(number), _) => {
                    agent.give_up(link.peer, number);
                    given_up.push(link.peer);
                }
                _ => gone.push((link.peer, departure)),
            }
            false
        });
        for (peer, departure) in gone {
            found.has_signalled |= self.lose(agent, peer, departure, sink);
        }
        found
    }

    /// Takes `peer` for gone, with all of its links; whether that is news.
    fn lose(
        &mut self,
        agent: &Agent,
        peer: NodeId,
        departure: Departure,
        sink: &mut dyn FnMut(Completion<'_>),
    ) -> bool {
        let is_news = agent.lose(peer, departure);
        self.links.retain_mut(|link| {
            if link.peer == peer {
                link.close(agent, sink);
            }
            link.peer != peer
        });
        is_news
    }

    /// Gives signs of life where it is time to, and takes for lost who gives none; whether there
    /// was one.
    pub(crate) fn beat(
        &mut self,
        agent: &Agent,
        now: Instant,
        sink: &mut dyn FnMut(Completion<'_>),
    ) -> bool {
        if now < self.next_beat {
            return false;
        }
        self.next_beat = now + BEAT;
        agent.beat();
        for link in &mut self.links {
            let is_heard = mem::take(&mut link.is_heard);
            link.silent_beats = if is_heard { 0 } else { link.silent_beats + 1 };
        }
        let given_up = mem::take(&mut self.given_up);
        let given_up = given_up.into_iter().filter(|&peer| !agent.has_lost(peer));
        given_up.for_each(|peer| (self.tell)(peer, GIVEN_UP));
        let heard = self.links.iter().filter(|link| link.silent_beats < FAINT_BEATS);
        agent.note_heard(&heard.map(|link| link.peer).collect::<Vec<_>>());
        self.drop_silent_stripes(agent, sink);
        let silent = self.links.iter().filter(|link| link.silent_beats >= SILENT_BEATS);
        let silent: Vec<NodeId> = silent.map(|link| link.peer).collect();
        for &peer in silent.iter().filter(|&&peer| !agent.has_lost(peer)) {
            (self.tell)(peer, &format!("nothing has come for {SILENCE:?}"));
        }
        silent
            .into_iter()
            .fold(false, |has_lost, peer| self.lose(agent, peer, Departure::Died, sink) | has_lost)
    }

    /// Gives up the stripes by which nothing comes any more, while something does by the main link.
    fn drop_silent_stripes(&mut self, agent: &Agent, sink: &mut dyn FnMut(Completion<'_>)) {
        let is_heard = |link: &&Link| link.role == Role::Main && link.silent_beats == 0;
        let heard: Vec<NodeId> = self.links.iter().filter(is_heard).map(|link| link.peer).collect();
        let tell = self.tell;
        self.links.retain_mut(|link| {
            let Role::Stripe(number) = link.role else { return true };
            if link.silent_beats < SILENT_STRIPE_BEATS || !heard.contains(&link.peer) {
                return true;
            }
            link.close(agent, sink);
            tell(link.peer, GIVEN_UP);
            agent.give_up(link.peer, number);
            false
        });
    }
}

impl Link {
    /// Reads the link once, and answers; how its peer went, if it has said so. An error is a loss.
    fn read(
        &mut self,
        agent: &Agent,
        sink: &mut dyn FnMut(Completion<'_>),
        found: &mut Found,
    ) -> Result<Option<Departure>> {
        let mut letters = Correspondence::new(agent, self.peer, self.number(), sink);
        let takes = &|kind| self.role != Role::Watch || is_for_watch(kind);
        let received = self.inlet.receive(&mut Strict { inbox: &mut letters, takes });
        found.count += letters.count;
        found.has_signalled |= letters.has_signalled;
        found.has_room |= letters.has_room;
        if letters.has_left {
            return Ok(Some(Departure::Left));
        }
        let bytes = received?;
        agent.flush(self.peer);
        found.bytes += bytes;
        self.is_ready = bytes > 0;
        self.is_heard |= self.is_ready;
        Ok(None)
    }

    /// Ends it, and what is under way on it; how much of that the program was told.
    fn close(&mut self, agent: &Agent, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        let mut letters = Correspondence::new(agent, self.peer, self.number(), sink);
        self.inlet.close(&mut letters);
        letters.count
    }

    /// Its number among those over which replies go; those to a watch go over the main link.
    fn number(&self) -> usize {
        match self.role {
            Role::Main | Role::Watch => 0,
            Role::Stripe(number) => number,
        }
    }
}

/// Whether such packets go over a watch: they change nothing but who is there.
fn is_for_watch(kind: Kind) -> bool {
    matches!(kind, Kind::Beat | Kind::Lost | Kind::Goodbye)
}

#[cfg(all(test, not(loom)))]
mod tests;
