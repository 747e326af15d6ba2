//! What both ends say in the clear before they shake hands, so that a refusal has a reason.
//!
//! ```text
//! preamble  magic (8) version (2) flags (2) digest of the job (8); little-endian
//! ```
//!
//! The preamble and the reason that follows the answerer's keep their form in every version.

use super::Terms;
use crate::{Error, Result, bootstrap::MAGIC};

/// The version of all that nodes of different hosts say to each other.
pub(super) const VERSION: u16 = 3;
/// Bytes of a preamble.
pub(super) const LEN: usize = 20;

/// This end would not encrypt.
const PLAIN: u16 = 1;

/// A preamble, as it travels.
pub(super) type Bytes = [u8; LEN];

/// What one end says of itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Preamble {
    version: u16,
    flags: u16,
    job: u64,
}

impl Preamble {
    pub(super) fn new(terms: &Terms, is_plain: bool) -> Self {
        let flags = if is_plain { PLAIN } else { 0 };
        Self { version: VERSION, flags, job: terms.job.digest() }
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = [0; LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.flags.to_le_bytes());
        bytes[12..].copy_from_slice(&self.job.to_le_bytes());
        bytes
    }

    /// Reads what may have been sent by anybody.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let Ok(bytes) = <&Bytes>::try_from(bytes) else {
            let len = bytes.len();
            return Err(Error::protocol(format!("a preamble of {len} bytes; it has {LEN}")));
        };
        if bytes[..8] != MAGIC {
            return Err(Error::protocol("not a node of Pangea"));
        }
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let job = u64::from_le_bytes(bytes[12..].try_into().expect("the rest is eight bytes"));
        Ok(Self { version: u16_at(8), flags: u16_at(10), job })
    }

    /// Why the caller, who says this, cannot talk to an answerer who says `answer`.
    pub(super) fn obstacle(&self, answer: &Self) -> Option<String> {
        if self.version != answer.version {
            let (caller, answerer) = (self.version, answer.version);
            return Some(format!(
                "the caller speaks version {caller} of the protocol, the answerer {answerer}"
            ));
        }
        (self.job != answer.job).then(|| "the caller belongs to another job".to_owned())
    }

    /// Whether this end would not encrypt.
    pub(super) fn is_plain(&self) -> bool {
        self.flags & PLAIN != 0
    }
}
