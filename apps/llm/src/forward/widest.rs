//! Compiles loops for vector instructions that not every processor has.
//!
//! Which ones is decided when the program runs. No result depends on it: vectors get wider, but
//! what is added to what, and in which order, is written in the loops.

/// A loop worth compiling more than once. `run` and what it calls must be `inline(always)`.
pub(super) trait Work {
    fn run(self);
}

/// Runs `work`, compiled for the widest vectors here.
pub(super) fn widest(work: impl Work) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor was just asked for the feature.
        return unsafe { with_avx2(work) };
    }
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(work: impl Work) {
    work.run();
}
