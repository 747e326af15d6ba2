//! What the peer is owed: to hear soon, or at once, what has arrived.
//!
//! Any frame carries how far everything was delivered. Only a report says what has arrived beyond,
//! and only from a report does the peer conclude that something is lost.

use std::time::Duration;

use super::Settings;
use crate::Moment;

#[derive(Debug)]
pub(super) struct Answer {
    seen: u64,
    // Frames with packets since the last answer, and when that must come.
    frames: u32,
    due: Option<Moment>,
    is_urgent: bool,
    // The transmission with whose arrival one that is missing is lost.
    lost_at: Option<u64>,
    every: u32,
    delay: Duration,
    reordering: u64,
}

impl Answer {
    pub(super) fn new(settings: &Settings) -> Self {
        let (every, delay) = (settings.answer_every(), settings.answer_delay);
        let reordering = u64::from(settings.reordering);
        let (due, lost_at) = (None, None);
        Self { seen: 0, frames: 0, due, is_urgent: false, lost_at, every, delay, reordering }
    }

    /// The newest transmission that has arrived.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    /// A frame has arrived: one that is missing before it has to be reported at once, when it
    /// cannot be only late.
    #[inline]
    pub(super) fn saw(&mut self, transmission: u64) {
        if transmission > self.seen.saturating_add(1) && self.lost_at.is_none() {
            self.lost_at = Some(transmission.saturating_add(self.reordering));
        }
        self.seen = self.seen.max(transmission);
        if self.lost_at.is_some_and(|lost_at| lost_at <= self.seen) {
            self.lost_at = None;
            self.is_urgent = true;
        }
    }

    /// Packets have arrived: the peer waits to hear of it.
    #[inline]
    pub(super) fn owe(&mut self, now: Moment) {
        self.frames += 1;
        if self.frames >= self.every {
            self.due = Some(now);
        } else if self.due.is_none() {
            self.due = Some(now.after(self.delay));
        }
    }

    /// The peer must know at once.
    pub(super) fn urge(&mut self) {
        self.is_urgent = true;
    }

    /// Whether a report goes before everything else.
    pub(super) fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    /// When a report must be sent, if no frame carries the answer before.
    pub(super) fn due(&self) -> Option<Moment> {
        self.due
    }

    /// A frame has carried all that there was to say.
    pub(super) fn carried(&mut self) {
        self.frames = 0;
        self.due = None;
    }

    /// A report was sent.
    pub(super) fn reported(&mut self) {
        self.carried();
        self.is_urgent = false;
    }
}
