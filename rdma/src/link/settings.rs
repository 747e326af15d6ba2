//! What the two ends of a link agree on.

use std::time::Duration;

use super::{
    Class,
    frame::{Identity, WINDOW_MAX},
    report::REPORTS,
};
use crate::{Error, Result};

/// What a link is to do; both ends have the same, but for who they are.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Who speaks to whom.
    pub identity: Identity,
    /// Frames of requests that may be under way each way: a power of two.
    pub requests: u16,
    /// Frames of replies that may be under way each way: a power of two.
    pub replies: u16,
    /// How many later frames may overtake one before it is taken for lost: 0 where the wire keeps
    /// their order.
    pub reordering: u16,
    /// How long an acknowledgement waits for a frame that carries it.
    pub answer_delay: Duration,
    /// How long the first frames may be unanswered, before it is known how long an answer takes.
    pub resend_first: Duration,
    /// The shortest time after which an unanswered frame is sent again. The answer may take
    /// `answer_delay` and a turn of the peer's threads.
    pub resend_min: Duration,
    /// The longest time between two attempts, and so the shortest liveness time that makes sense.
    pub resend_max: Duration,
}

impl Settings {
    /// What suits a cable between two hosts.
    pub const fn new(identity: Identity) -> Self {
        Self {
            identity,
            // Several times what a cable holds (9 GB/s for 10 us are 22 frames), and no more: all
            // that is under way after a loss is kept, and copied once more.
            requests: 128,
            replies: 128,
            reordering: 0,
            // Longer than most answers take that carry it, and well below `resend_min`.
            answer_delay: Duration::from_micros(200),
            resend_first: Duration::from_millis(5),
            resend_min: Duration::from_micros(500),
            resend_max: Duration::from_millis(100),
        }
    }

    /// Slots that the frames of one end are in: the length of its slab.
    pub fn slots(&self) -> usize {
        usize::from(self.requests) + usize::from(self.replies) + usize::from(REPORTS)
    }

    /// Frames that may be under way to one end: those of both windows, and the reports on as many.
    /// A wire that loses frames for which no receive is posted has to have as many posted. Frames
    /// that are sent again after long silence come on top.
    pub fn receives(&self) -> usize {
        let frames = usize::from(self.requests) + usize::from(self.replies);
        self.slots() + frames.div_ceil(self.answer_every() as usize)
    }

    pub(super) fn window(&self, class: Class) -> u16 {
        [self.requests, self.replies][class.index()]
    }

    /// Frames after which an acknowledgement waits no longer.
    pub(super) fn answer_every(&self) -> u32 {
        u32::from(self.requests.min(self.replies) / 4).clamp(1, 16)
    }

    pub(super) fn check(&self) -> Result {
        for (field, window) in [("requests", self.requests), ("replies", self.replies)] {
            if !window.is_power_of_two() || window > WINDOW_MAX {
                let reason = format!("{window} frames; it is a power of two up to {WINDOW_MAX}");
                return Err(Error::Config { field, reason });
            }
        }
        if self.resend_min.is_zero() || self.resend_min > self.resend_max {
            let (min, max) = (self.resend_min, self.resend_max);
            let reason =
                format!("{min:?}; it is more than nothing, and at most resend_max, {max:?}");
            return Err(Error::Config { field: "resend_min", reason });
        }
        Ok(())
    }
}
