//! What the provider can do, in numbers. Evidence: sections of `apple-rdma.md`.

/// Bytes of a frame, into which every message is cut (1.2).
pub(crate) const FRAME_LEN: usize = 4096;
/// Frames of the longest message, and frames that may wait in a queue (1.2).
pub(crate) const FRAMES: u32 = 4095;
/// Bytes of the longest message (1.2).
pub(crate) const MESSAGE_LEN: usize = FRAMES as usize * FRAME_LEN;
/// Queue pairs that a device really has (1.2) ...
pub(crate) const QUEUE_PAIRS: usize = 10;
/// ... and that it says it has (1.2).
pub(crate) const QUEUE_PAIRS_TOLD: i32 = 11;
/// Memory regions of a device (1.2).
pub(crate) const REGIONS: usize = 100;
/// Protection domains of a device (1.2).
pub(crate) const DOMAINS: usize = 11;
/// Longest memory region that the device tells of; it takes longer ones (1.2).
pub(crate) const REGION_LEN_TOLD: u64 = 0xfa_0000;
/// Completions that a queue may hold (1.2: the most that anybody uses).
pub(crate) const COMPLETIONS: i32 = 4096;

/// Frames of a message of `len` bytes.
pub(crate) fn frames(len: usize) -> u32 {
    u32::try_from(len.div_ceil(FRAME_LEN)).unwrap_or(u32::MAX)
}

/// Frames that a send queue takes which was made for `wanted`: 256 gives 1023, 4095 gives 4095
/// (1.2); what lies between is a guess.
pub(crate) fn queue_depth(wanted: u32) -> u32 {
    wanted.max(1).saturating_mul(4).saturating_sub(1).min(FRAMES)
}
