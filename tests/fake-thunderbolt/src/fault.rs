//! What goes wrong on a wire, decided frame by frame, and the same for the same seed.

use std::time::Instant;

use crate::settings::Faults;

/// A queue pair stalls once in this many frames.
const STALL_EVERY: f64 = 1000.0;

/// The fate of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Fate {
    pub(crate) is_lost: bool,
    pub(crate) is_doubled: bool,
    pub(crate) is_corrupted: bool,
}

/// Decides for the frames that one queue pair sends.
#[derive(Debug)]
pub(crate) struct Fates {
    faults: Faults,
    state: u64,
    stalled_until: Option<Instant>,
}

impl Fates {
    /// Fates for the queue pair of this number.
    pub(crate) fn new(faults: Faults, number: u32) -> Self {
        let state = faults.seed ^ u64::from(number) << 32;
        Self { faults, state, stalled_until: None }
    }

    /// The next frame's fate.
    pub(crate) fn next(&mut self) -> Fate {
        let Faults { loss, duplicate, corrupt, stall, .. } = self.faults;
        let is_lost = self.happens(loss);
        let is_doubled = self.happens(duplicate);
        let is_corrupted = self.happens(corrupt);
        if !stall.is_zero() && self.happens(1.0 / STALL_EVERY) {
            self.stalled_until = Some(Instant::now() + stall);
        }
        Fate { is_lost, is_doubled, is_corrupted }
    }

    /// Whether the wire stands still.
    pub(crate) fn is_stalled(&mut self) -> bool {
        self.stalled_until = self.stalled_until.filter(|&end| Instant::now() < end);
        self.stalled_until.is_some()
    }

    fn happens(&mut self, probability: f64) -> bool {
        // What cannot happen draws nothing: a run without faults costs nothing.
        probability > 0.0 && self.draw() < probability
    }

    /// A number from 0 to below 1 (the generator SplitMix64).
    fn draw(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        // 53 bits are what a double holds exactly.
        ((bits ^ bits >> 31) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const FAULTS: Faults =
        Faults { loss: 0.01, duplicate: 0.02, corrupt: 0.03, stall: Duration::ZERO, seed: 7 };

    fn fates(faults: Faults, number: u32) -> Vec<Fate> {
        let mut fates = Fates::new(faults, number);
        (0..100_000).map(|_| fates.next()).collect()
    }

    #[test]
    fn faults_come_as_often_as_asked() {
        let fates = fates(FAULTS, 1);
        let count = |is: fn(&Fate) -> bool| fates.iter().filter(|fate| is(fate)).count();
        assert!((800..1200).contains(&count(|fate| fate.is_lost)));
        assert!((1800..2200).contains(&count(|fate| fate.is_doubled)));
        assert!((2700..3300).contains(&count(|fate| fate.is_corrupted)));
    }

    #[test]
    fn a_seed_and_a_queue_pair_have_one_fate() {
        assert_eq!(fates(FAULTS, 1), fates(FAULTS, 1));
        assert_ne!(fates(FAULTS, 1), fates(FAULTS, 2));
        assert_ne!(fates(FAULTS, 1), fates(Faults { seed: 8, ..FAULTS }, 1));
    }
}
