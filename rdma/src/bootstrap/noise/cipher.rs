//! A stream of bytes, cut into records that nobody else can read or forge.
//!
//! ```text
//! record  length of the rest (2, little-endian), ciphertext with its tag (16)
//! ```
//!
//! Records are numbered by each end, and the number is the nonce: one that is lost, repeated or out
//! of its place does not open. A key lives as long as its connection; AES-GCM hides the content of
//! far more bytes than a connection carries (4 PB to one in 2^33), so that it is not renewed.

use std::{fmt, sync::Arc};

use snow::StatelessTransportState;

use crate::{Error, Result};

/// Bytes of a tag.
pub(crate) const TAG_LEN: usize = 16;
/// Bytes of a record's length.
pub(crate) const HEAD_LEN: usize = 2;
/// Bytes that one record can carry.
pub(crate) const PLAIN_LEN_MAX: usize = u16::MAX as usize - TAG_LEN;

/// The half that sends. Its nonces begin where the handshake left them.
pub(crate) struct Sealer {
    state: Arc<StatelessTransportState>,
    nonce: u64,
}

/// The half that receives.
pub(crate) struct Opener {
    state: Arc<StatelessTransportState>,
    nonce: u64,
}

/// The two halves, each of which may go to a thread of its own.
pub(super) fn split(state: StatelessTransportState) -> (Sealer, Opener) {
    let state = Arc::new(state);
    (Sealer { state: state.clone(), nonce: 0 }, Opener { state, nonce: 0 })
}

impl Sealer {
    /// Appends one record that holds `plain`, [`PLAIN_LEN_MAX`] bytes at most, to `out`.
    pub(crate) fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result {
        let Ok(len) = u16::try_from(plain.len() + TAG_LEN) else {
            let (len, capacity) = (plain.len() as u64, PLAIN_LEN_MAX as u64);
            return Err(Error::OutOfBounds { offset: 0, len, capacity });
        };
        let start = out.len() + HEAD_LEN;
        out.extend(len.to_le_bytes());
        out.resize(start + usize::from(len), 0);
        let nonce = next(&mut self.nonce)?;
        let sealed = self.state.write_message(nonce, plain, &mut out[start..]);
        let sealed = sealed.map_err(|error| Error::protocol(format!("cannot seal: {error}")))?;
        assert_eq!(sealed, usize::from(len), "a record is as long as it says");
        Ok(())
    }
}

impl Opener {
    /// Opens `record`, which is without its length, into `out`, which is at least as long; returns
    /// the length of what it held. After an error the stream is of no use.
    pub(crate) fn open(&mut self, record: &[u8], out: &mut [u8]) -> Result<usize> {
        let Some(len) = record.len().checked_sub(TAG_LEN).filter(|len| *len <= out.len()) else {
            let (len, room) = (record.len(), out.len());
            return Err(Error::protocol(format!(
                "a record of {len} bytes; it has {TAG_LEN} to {}",
                room.saturating_add(TAG_LEN)
            )));
        };
        let nonce = next(&mut self.nonce)?;
        let opened = self.state.read_message(nonce, record, out);
        let opened = opened.map_err(|_| Error::protocol("a record that was changed on its way"))?;
        assert_eq!(opened, len, "a record is longer than what it holds by its tag");
        Ok(opened)
    }
}

/// A number that was not used before.
fn next(nonce: &mut u64) -> Result<u64> {
    let this = *nonce;
    // Noise reserves the last number.
    *nonce = this.checked_add(1).ok_or_else(|| Error::protocol("a connection used up its key"))?;
    Ok(this)
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("nonce", &self.nonce).finish_non_exhaustive()
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").field("nonce", &self.nonce).finish_non_exhaustive()
    }
}

/// Both ends of an encrypted stream, without a handshake over one.
#[cfg(all(test, not(loom)))]
pub(crate) fn ciphers() -> [(Sealer, Opener); 2] {
    let builder = || snow::Builder::new("Noise_NN_25519_AESGCM_SHA256".parse().unwrap());
    let mut ends = [builder().build_initiator().unwrap(), builder().build_responder().unwrap()];
    for (from, to) in [(0, 1), (1, 0)] {
        let mut message = [0; 128];
        let len = ends[from].write_message(&[], &mut message).unwrap();
        ends[to].read_message(&message[..len], &mut []).unwrap();
    }
    ends.map(|end| split(end.into_stateless_transport_mode().unwrap()))
}
