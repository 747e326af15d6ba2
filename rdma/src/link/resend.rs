//! When to send again what was not answered: the measured round trip, and patience that grows.
//!
//! The estimate is that of RFC 6298, in nanoseconds.

use std::time::Duration;

use super::Settings;
use crate::{Moment, moment::nanos};

/// Doublings after which the longest time is reached, whatever the shortest is.
const DOUBLINGS_MAX: u32 = 20;

/// All durations are nanoseconds: this is asked for every frame.
#[derive(Debug)]
pub(super) struct Resend {
    // 0 before the first sample.
    smoothed: u64,
    variation: u64,
    timeout: u64,
    doublings: u32,
    since: Moment,
    min: u64,
    max: u64,
}

impl Resend {
    pub(super) fn new(settings: &Settings) -> Self {
        let (min, max) = (nanos(settings.resend_min), nanos(settings.resend_max));
        let timeout = nanos(settings.resend_first).clamp(min, max);
        Self { smoothed: 0, variation: 0, timeout, doublings: 0, since: Moment::START, min, max }
    }

    /// When patience ends, where there is something to wait for.
    #[inline]
    pub(super) fn deadline(&self) -> Moment {
        let patience = self.timeout.saturating_mul(1 << self.doublings).min(self.max);
        Moment(self.since.0.saturating_add(patience))
    }

    /// Waiting begins.
    pub(super) fn start(&mut self, now: Moment) {
        self.since = now;
    }

    /// An answer has come.
    pub(super) fn answered(&mut self, now: Moment) {
        self.since = now;
        self.doublings = 0;
    }

    /// No answer has come.
    pub(super) fn give_up(&mut self, now: Moment) {
        self.since = now;
        self.doublings = (self.doublings + 1).min(DOUBLINGS_MAX);
    }

    /// It took this long from a frame to its answer.
    pub(super) fn measured(&mut self, round_trip: Duration) {
        let sample = nanos(round_trip).clamp(1, self.max);
        if self.smoothed == 0 {
            self.smoothed = sample;
            self.variation = sample / 2;
        } else {
            let error = self.smoothed.abs_diff(sample);
            self.variation = self.variation.saturating_mul(3).saturating_add(error) / 4;
            self.smoothed = self.smoothed.saturating_mul(7).saturating_add(sample) / 8;
        }
        let timeout = self.smoothed.saturating_add(self.variation.saturating_mul(4));
        self.timeout = timeout.clamp(self.min, self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NodeId, link::Identity};

    const AT: Moment = Moment(1_000_000);

    fn resend() -> Resend {
        let (source, target) = (NodeId::new(0), NodeId::new(1));
        Resend::new(&Settings::new(Identity { cluster: 1, epoch: 1, source, target }))
    }

    #[test]
    fn patience_doubles_up_to_its_limit() {
        let mut resend = resend();
        resend.start(AT);
        let waits: Vec<_> = (0..30)
            .map(|_| {
                let wait = resend.deadline().since(AT);
                resend.give_up(AT);
                wait.as_millis()
            })
            .collect();
        assert_eq!(waits[..6], [5, 10, 20, 40, 80, 100]);
        assert_eq!(waits[29], 100);
        resend.answered(AT);
        assert_eq!(resend.deadline().since(AT).as_millis(), 5);
    }

    #[test]
    fn patience_follows_the_round_trip() {
        let mut resend = resend();
        resend.start(AT);
        for _ in 0..100 {
            resend.measured(Duration::from_millis(2));
        }
        let steady = resend.deadline().since(AT);
        assert!(steady >= Duration::from_millis(2) && steady < Duration::from_micros(2100));
        resend.measured(Duration::from_millis(6));
        assert!(resend.deadline().since(AT) > Duration::from_millis(6));
        for _ in 0..100 {
            resend.measured(Duration::ZERO);
        }
        assert_eq!(resend.deadline().since(AT), Duration::from_micros(500));
    }
}
