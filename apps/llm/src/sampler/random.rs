//! SplitMix64: a small generator that is the same everywhere.
//!
//! Guy Steele, Doug Lea, Christine Flood: "Fast splittable pseudorandom number generators", 2014.

/// An endless sequence of numbers that a seed determines.
#[derive(Clone, Debug)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A number from 0 up to but not including 1.
    pub(super) fn unit(&mut self) -> f64 {
        // All 53 bits of a float's precision.
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        let mut random = Random::new(1_234_567);
        let numbers = [(); 3].map(|()| random.next());
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn units_fill_the_interval_evenly() {
        let mut random = Random::new(0);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            let unit = random.unit();
            assert!((0.0..1.0).contains(&unit));
            counts[(0..9).take_while(|&n| unit >= f64::from(n + 1) / 10.0).count()] += 1;
        }
        // Nine standard deviations are about 850.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 850), "{counts:?}");
    }
}
