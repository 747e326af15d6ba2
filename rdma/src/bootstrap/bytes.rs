//! Random bytes, and bytes as hexadecimal digits.

use std::{fmt, fs::File, io::Read};

use crate::{Error, Result};

/// Bytes that nobody can guess.
pub(super) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(Error::os("reading random numbers"))?;
    Ok(bytes)
}

/// The bytes that `text` spells, if it has two digits for each of them and nothing else.
pub(super) fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let mut bytes = [0; N];
    if digits.len() != 2 * N || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// Writes `bytes` as digits.
pub(super) fn write_hex(bytes: &[u8], f: &mut impl fmt::Write) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// A number made of `bytes`: not a secret, the same on every host (FNV-1a, begun at `basis`).
pub(super) fn digest(basis: u64, bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    bytes.iter().fold(OFFSET ^ basis, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(PRIME))
}
