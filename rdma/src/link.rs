//! Ordered reliable packets between two nodes, over frames that may be lost.
//!
//! A [`Link`] is one end: packets are pushed into slots, slots are handed to the wire, frames that
//! the wire has received come in, and packets come out in order, exactly once. It knows no clock,
//! thread or socket; time is told by the caller.
//!
//! Requests and replies are two classes with separate windows, so that replies get through while
//! requests wait. Packets keep their order within a class, not between the two.
//!
//! # How losses are found
//!
//! Every frame has a *transmission* number, which grows with each that is sent, and a *sequence*
//! number in its class, which stays when it is sent again. A receiver that misses a transmission
//! reports at once which frames it has, and the newest transmission that it has seen: what was sent
//! before that and has not arrived is lost, a repetition like a first attempt. Where nothing is
//! heard, the oldest frame is sent again, ever more rarely; the answer tells the rest.
//!
//! A receiver that holds a class keeps its frames, and does not acknowledge them: the sender stops
//! when the window is full, and asks now and then.

mod answer;
pub mod frame;
mod inbox;
mod outbox;
mod report;
mod resend;
mod settings;
mod statistics;

use std::time::Duration;

use self::{
    answer::Answer,
    frame::{Acknowledgement, Frame, Head, Kind},
    inbox::{Arrival, Inbox},
    outbox::Outbox,
    report::Reports,
    resend::Resend,
};
pub use self::{
    frame::{FRAME_LEN_MAX, Identity, PACKET_LEN_MAX, Refusal},
    settings::Settings,
    statistics::Statistics,
};
use crate::{Moment, Result};

/// Memory that frames are sent from: as many slots as [`Settings::slots`].
pub type Slab = [[u8; FRAME_LEN_MAX]];

/// What a packet is; each has its own window and its own order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Class {
    /// It asks for something: it may have to wait.
    Request,
    /// It answers a request: whoever asked takes it at once.
    Reply,
}

impl Class {
    /// How many there are.
    pub const COUNT: usize = 2;
    /// All of them; what is sent first is first.
    const ALL: [Self; Self::COUNT] = [Self::Reply, Self::Request];

    const fn index(self) -> usize {
        self as usize
    }
}

/// The number of a slot in its slab.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SlotId(pub u16);

impl SlotId {
    /// The number, to index the slab.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A frame for the wire: the first `len` bytes of a slot, not to be changed before
/// [`Link::sent`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Outgoing {
    /// Where it is.
    pub slot: SlotId,
    /// Bytes of it.
    pub len: usize,
}

/// One end of a link.
#[derive(Debug)]
pub struct Link {
    settings: Settings,
    outboxes: [Outbox; Class::COUNT],
    inboxes: [Inbox; Class::COUNT],
    reports: Reports,
    answer: Answer,
    resend: Resend,
    // The newest of ours, and the newest of ours that the peer has seen.
    transmission: u64,
    seen: u64,
    // When the peer was last heard to hear us, or began to owe us that.
    heard_at: Moment,
    statistics: Statistics,
}

impl Link {
    /// One end, before the first frame.
    pub fn new(settings: Settings) -> Result<Self> {
        settings.check()?;
        Ok(Self {
            outboxes: [
                Outbox::new(0, settings.requests),
                Outbox::new(settings.requests, settings.replies),
            ],
            inboxes: [Inbox::new(settings.requests), Inbox::new(settings.replies)],
            reports: Reports::new(settings.requests + settings.replies),
            answer: Answer::new(&settings),
            resend: Resend::new(&settings),
            transmission: 0,
            seen: 0,
            heard_at: Moment::START,
            statistics: Statistics::default(),
            settings,
        })
    }

    /// Longest packets that can be pushed now.
    pub fn room(&self, class: Class) -> usize {
        self.outboxes[class.index()].room()
    }

    /// Copies a packet of at most [`PACKET_LEN_MAX`] bytes, which is `parts`, into a slot; whether
    /// there was room. It shares a frame with others that have not been transmitted.
    #[inline]
    pub fn push(&mut self, class: Class, slab: &mut Slab, parts: &[&[u8]]) -> bool {
        self.outboxes[class.index()].push(slab, parts)
    }

    /// The next frame for the wire, if there is one now. To be called until there is none: after
    /// [`push`](Self::push), [`receive`](Self::receive), [`sent`](Self::sent) and
    /// [`resume`](Self::resume), and at the [`deadline`](Self::deadline).
    #[inline]
    pub fn transmit(&mut self, now: Moment, slab: &mut Slab) -> Option<Outgoing> {
        if self.is_awaiting() && self.resend.deadline() <= now {
            self.statistics.timeouts += 1;
            self.resend.give_up(now);
            self.outboxes.iter_mut().for_each(Outbox::probe);
        }
        if self.answer.is_urgent() && self.reports.has_room() {
            return self.transmit_report(slab);
        }
        if let Some(class) = self.next_class() {
            return Some(self.transmit_packets(class, now, slab));
        }
        if self.answer.due().is_some_and(|due| due <= now) {
            return self.transmit_report(slab);
        }
        None
    }

    /// The wire no longer reads the slot: it has carried the frame, or never will.
    #[inline]
    pub fn sent(&mut self, slot: SlotId) {
        let mut index = slot.index();
        for class in [Class::Request, Class::Reply] {
            let window = usize::from(self.settings.window(class));
            if index < window {
                return self.outboxes[class.index()].sent(index);
            }
            index -= window;
        }
        self.reports.sent(index);
    }

    /// Takes in what the wire has received, and delivers the packets whose turn it is; whether the
    /// peer has sent it.
    ///
    /// `deliver` returns whether it takes more of the class. When it has said no, it still gets the
    /// other packets of the same frame, then none before [`resume`](Self::resume).
    #[inline]
    pub fn receive(
        &mut self,
        now: Moment,
        bytes: &[u8],
        deliver: &mut dyn FnMut(Class, &[u8]) -> bool,
    ) -> bool {
        let checked = self.check(bytes);
        match &checked {
            Ok(frame) => self.take_in(now, frame, deliver),
            Err(refusal) => self.statistics.refused[*refusal as usize] += 1,
        }
        checked.is_ok()
    }

    /// Delivers again what comes of `class`, and first what was kept since `deliver` took no more.
    pub fn resume(&mut self, class: Class, deliver: &mut dyn FnMut(Class, &[u8]) -> bool) {
        self.inboxes[class.index()].resume();
        if self.deliver_kept(class, deliver) {
            // The peer may wait for its window to open.
            self.answer.urge();
        }
    }

    /// Has what the peer is still owed to hear sent at once: nothing more will be received.
    pub fn conclude(&mut self) {
        if self.answer.due().is_some() {
            self.answer.urge();
        }
    }

    /// When [`transmit`](Self::transmit) must be called at the latest, if nothing happens before;
    /// in the past, if there is something to transmit now.
    pub fn deadline(&mut self) -> Option<Moment> {
        let can_report = self.reports.has_room();
        if self.next_class().is_some() || can_report && self.answer.is_urgent() {
            return Some(Moment::START);
        }
        let answer = self.answer.due().filter(|_| can_report);
        let resend = self.is_awaiting().then(|| self.resend.deadline());
        answer.into_iter().chain(resend).min()
    }

    /// How long the peer has not been heard to receive anything, while there was something for it
    /// to receive.
    pub fn silence(&self, now: Moment) -> Duration {
        if self.is_awaiting() { now.since(self.heard_at) } else { Duration::ZERO }
    }

    /// Whether the two ends owe each other nothing: all that was pushed is acknowledged, and so is
    /// all that came.
    pub fn is_quiet(&mut self) -> bool {
        self.deadline().is_none()
    }

    /// What has happened so far.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    fn is_awaiting(&self) -> bool {
        self.outboxes.iter().any(Outbox::is_awaiting)
    }

    /// The class whose turn it is to send: what was lost goes before what is new.
    fn next_class(&mut self) -> Option<Class> {
        let outboxes = &mut self.outboxes;
        let lost = Class::ALL.into_iter().find(|class| outboxes[class.index()].has_lost());
        lost.or_else(|| Class::ALL.into_iter().find(|class| outboxes[class.index()].has_fresh()))
    }

    fn transmit_packets(&mut self, class: Class, now: Moment, slab: &mut Slab) -> Outgoing {
        if !self.is_awaiting() {
            self.resend.start(now);
            self.heard_at = now;
        }
        self.transmission += 1;
        let outbox = &mut self.outboxes[class.index()];
        let frame = outbox.transmit(now, self.transmission);
        self.statistics.repeated += u64::from(frame.is_repeated);
        let head = self.head(Kind::Packets(class), frame.sequence);
        let len = frame::seal(&mut slab[frame.slot.index()], &head, frame.payload_len);
        if !self.inboxes.iter().any(Inbox::is_keeping) {
            self.answer.carried();
        }
        self.statistics.sent += 1;
        Outgoing { slot: frame.slot, len }
    }

    fn transmit_report(&mut self, slab: &mut Slab) -> Option<Outgoing> {
        let (slot, payload_len) = self.reports.write(&self.inboxes, slab)?;
        self.transmission += 1;
        let head = self.head(Kind::Report, 0);
        let len = frame::seal(&mut slab[slot.index()], &head, payload_len);
        self.answer.reported();
        self.statistics.sent += 1;
        self.statistics.reports += 1;
        Some(Outgoing { slot, len })
    }

    fn head(&self, kind: Kind, sequence: u64) -> Head {
        let acknowledgement = Acknowledgement {
            seen: self.answer.seen(),
            next: [self.inboxes[0].next(), self.inboxes[1].next()],
            credit: [self.settings.requests, self.settings.replies],
        };
        let (identity, transmission) = (self.settings.identity, self.transmission);
        Head { identity, kind, sequence, transmission, acknowledgement }
    }

    /// The frame, if it can have been sent by the peer.
    fn check<'a>(&self, bytes: &'a [u8]) -> Result<Frame<'a>, Refusal> {
        let frame = frame::decode(bytes)?;
        let Head { identity, kind, sequence, transmission, acknowledgement } = frame.head;
        if identity != self.settings.identity.reversed() {
            return Err(Refusal::Stranger);
        }
        let mut boxes = self.outboxes.iter().zip(acknowledgement.next);
        let is_possible = transmission > 0
            && acknowledgement.seen <= self.transmission
            && boxes.all(|(outbox, next)| outbox.is_possible(next))
            && match kind {
                Kind::Packets(class) => self.inboxes[class.index()].is_possible(sequence),
                Kind::Report => true,
            };
        if is_possible { Ok(frame) } else { Err(Refusal::Impossible) }
    }

    fn take_in(
        &mut self,
        now: Moment,
        frame: &Frame<'_>,
        deliver: &mut dyn FnMut(Class, &[u8]) -> bool,
    ) {
        self.statistics.received += 1;
        self.take_acknowledgement(now, frame);
        self.answer.saw(frame.head.transmission);
        let Kind::Packets(class) = frame.head.kind else { return };
        self.answer.owe(now);
        let inbox = &mut self.inboxes[class.index()];
        match inbox.accept(frame.head.sequence, frame.payload) {
            Arrival::Next => {
                if !deliver_packets(class, frame.payload, deliver) {
                    inbox.hold();
                }
                self.deliver_kept(class, deliver);
            }
            Arrival::Early => self.statistics.early += 1,
            Arrival::Again => self.statistics.duplicates += 1,
        }
    }

    /// Delivers what was kept, as far as it is complete; whether there was something.
    fn deliver_kept(
        &mut self,
        class: Class,
        deliver: &mut dyn FnMut(Class, &[u8]) -> bool,
    ) -> bool {
        let inbox = &mut self.inboxes[class.index()];
        let mut deliver = |payload: &[u8]| deliver_packets(class, payload, deliver);
        let mut has_delivered = false;
        while inbox.deliver_kept(&mut deliver) {
            has_delivered = true;
        }
        has_delivered
    }

    fn take_acknowledgement(&mut self, now: Moment, frame: &Frame<'_>) {
        let Acknowledgement { seen, next, credit } = frame.head.acknowledgement;
        let mut has_progress = false;
        for ((outbox, next), credit) in self.outboxes.iter_mut().zip(next).zip(credit) {
            let progress = outbox.acknowledge(next, credit, seen);
            has_progress |= progress.is_some;
            if let Some(sent_at) = progress.sent_at {
                self.resend.measured(now.since(sent_at));
            }
        }
        if let (Kind::Report, Some(maps)) = (frame.head.kind, frame::bit_maps(frame.payload)) {
            let reordering = u64::from(self.settings.reordering);
            for ((outbox, next), bits) in self.outboxes.iter_mut().zip(next).zip(maps) {
                has_progress |= outbox.report(next, bits, seen, reordering);
            }
        }
        if has_progress {
            self.resend.answered(now);
        }
        if has_progress || seen > self.seen {
            self.heard_at = now;
        }
        self.seen = self.seen.max(seen);
    }
}

/// Delivers the packets of a frame; whether more may follow.
fn deliver_packets(
    class: Class,
    payload: &[u8],
    deliver: &mut dyn FnMut(Class, &[u8]) -> bool,
) -> bool {
    frame::packets(payload).fold(true, |is_welcome, packet| deliver(class, packet) & is_welcome)
}

#[cfg(test)]
mod tests;
