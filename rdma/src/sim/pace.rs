//! How fast virtual time passes where threads wait for what happens in it.
//!
//! What happens soon after something else happens at once: an answer is not waited for. Where
//! nothing happens for long, as between two signs of life, real time passes too.

use std::time::{Duration, Instant};

use crate::{Moment, links::BEAT};

/// How much faster than real time.
const SPEED: u32 = 10;
/// What comes so much later, in virtual time, comes at once: to sleep for it would take longer.
const SHORT: Duration = Duration::from_millis(1);
/// How far virtual time may be behind; more than that is not made up for.
const LAG_MAX: Duration = BEAT.checked_div(SPEED).expect("it is not zero");

/// An instant, and the moment that is to come then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    instant: Instant,
    moment: Moment,
}

impl Pace {
    /// One by which `moment` is at `instant`.
    pub(super) fn new(moment: Moment, instant: Instant) -> Self {
        Self { instant, moment }
    }

    /// When that which comes at `at` is due, where the time is `now`.
    pub(super) fn due(&self, now: Moment, at: Moment) -> Instant {
        if at.since(now) <= SHORT { self.instant } else { self.instant_of(at) }
    }

    /// Takes note that it was `at` at `instant`.
    pub(super) fn reach(&mut self, at: Moment, instant: Instant) {
        let latest = self.instant_of(at).min(instant);
        let lag = instant.duration_since(latest).min(LAG_MAX);
        *self = Self { instant: instant - lag, moment: at };
    }

    fn instant_of(&self, at: Moment) -> Instant {
        self.instant + at.since(self.moment) / SPEED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_soon_comes_at_once_and_the_rest_in_its_time() {
        let (start, begin) = (Instant::now(), Moment(77));
        let mut pace = Pace::new(begin, start);
        assert_eq!(pace.due(begin, begin.after(SHORT)), start);
        let beat = begin.after(BEAT);
        assert_eq!(pace.due(begin, beat), start + BEAT / SPEED);
        assert_eq!(pace.due(beat, beat.after(SHORT)), start, "it has come");

        // Ahead of its time: what follows is not kept waiting for that.
        pace.reach(beat, start);
        assert_eq!(pace.due(beat, beat.after(BEAT)), start + BEAT / SPEED);
    }

    #[test]
    fn idle_time_counts_but_not_for_ever() {
        let (start, begin) = (Instant::now(), Moment::START);
        let mut pace = Pace::new(begin, start);
        // Something happens, late, that takes no time: the beat is not put off.
        let beat = begin.after(BEAT);
        pace.reach(begin, start + BEAT / SPEED / 2);
        assert_eq!(pace.due(begin, beat), start + BEAT / SPEED);
        // After a long time in which nothing could happen, beats do not come in a row.
        let late = start + 1000 * BEAT;
        pace.reach(beat, late);
        assert_eq!(pace.due(beat, beat.after(2 * BEAT)), late + BEAT / SPEED);
    }
}
