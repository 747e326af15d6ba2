//! Repeatable random numbers.

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below `2^bits`, every magnitude as likely as another.
    pub(crate) fn magnitude(&mut self, bits: u64) -> u64 {
        let bits = self.below(bits + 1);
        self.below(1 << bits)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % limit
    }
}
