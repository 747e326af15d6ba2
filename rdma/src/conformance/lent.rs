//! Memory that is lent to a fabric, and what is written to it.

use std::ptr::NonNull;

use crate::sim::Random;

/// What is around everything that is written.
pub(super) const CANARY: u8 = 0xC5;
/// Bytes of it before and after.
const MARGIN: usize = 64;

/// `len` bytes that differ from those of any other `seed`, nearly always.
pub(super) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// Memory between canaries that is the fabric's until it is taken back; for ever, if it is not.
pub(super) struct Lent {
    all: NonNull<[u8]>,
    part: NonNull<[u8]>,
}

impl Lent {
    /// A copy of `bytes` between canaries, at an address that depends on `skew`.
    pub(super) fn new(bytes: &[u8], skew: u64) -> Self {
        let lead = MARGIN - usize::try_from(skew % 8).unwrap();
        let all = [&vec![CANARY; lead], bytes, &[CANARY; MARGIN]].concat();
        let all = NonNull::from(Box::leak(all.into_boxed_slice()));
        // SAFETY: there are as many bytes before the part.
        let start = unsafe { all.cast::<u8>().add(lead) };
        Self { all, part: NonNull::slice_from_raw_parts(start, bytes.len()) }
    }

    /// The bytes, without what is around them.
    pub(super) fn part(&self) -> NonNull<[u8]> {
        self.part
    }

    /// Takes the bytes back, when the fabric has done with them.
    pub(super) fn take_back(self) -> Vec<u8> {
        // SAFETY: `new` leaked it, and the fabric, which alone had it, is done.
        let all = unsafe { Box::from_raw(self.all.as_ptr()) };
        let after = all.len() - MARGIN;
        let before = after - self.part.len();
        let around = all[..before].iter().chain(&all[after..]);
        assert!(around.into_iter().all(|byte| *byte == CANARY), "only what is named is touched");
        all[before..after].to_vec()
    }
}
