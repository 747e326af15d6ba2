//! What has happened on a link.

use super::Refusal;

/// Counts of frames since the link was made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    /// Sent, repetitions and reports too.
    pub sent: u64,
    /// Of these, those that had been sent before.
    pub repeated: u64,
    /// Of these, those that carried only what has arrived.
    pub reports: u64,
    /// Received and taken.
    pub received: u64,
    /// Of these, those that came before their turn.
    pub early: u64,
    /// Of these, those that had come before.
    pub duplicates: u64,
    /// Received and not taken, by reason.
    pub refused: [u64; Refusal::COUNT],
    /// How often nothing was heard for so long that a frame was sent again.
    pub timeouts: u64,
}
