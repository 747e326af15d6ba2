//! Random numbers that are the same in every run.

/// Sebastiano Vigna's `splitmix64`.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A cycle through all of `0..len` in random order: each element holds the index of the next
    /// (Sattolo's algorithm).
    pub(crate) fn cycle(&mut self, len: usize) -> Vec<u64> {
        let mut next: Vec<u64> = (0..len as u64).collect();
        for last in (1..len).rev() {
            let other = usize::try_from(self.next() % last as u64).expect("an index");
            next.swap(last, other);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_visits_everything_once() {
        let next = Random(1).cycle(1000);
        let mut at = 0;
        for step in 1..=1000 {
            at = usize::try_from(next[at]).unwrap();
            assert_eq!(at == 0, step == 1000);
        }
    }
}
