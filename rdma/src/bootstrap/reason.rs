//! How a caller is let in, or told why not.
//!
//! ```text
//! length of the reason (2, little-endian), reason (UTF-8); a length of zero lets the caller in
//! ```

use std::io::{self, Read};

/// Bytes of the longest reason.
const LEN_MAX: usize = 1024;

/// The bytes that refuse a caller for `reason`, or let it in where there is none.
pub(super) fn encode(reason: Option<&str>) -> Vec<u8> {
    let reason = reason.unwrap_or_default();
    let mut len = reason.len().min(LEN_MAX);
    while !reason.is_char_boundary(len) {
        len -= 1;
    }
    let mut bytes = u16::try_from(len).expect("a short text").to_le_bytes().to_vec();
    bytes.extend(&reason.as_bytes()[..len]);
    bytes
}

/// The answer to a caller: `None`, or why it is not let in.
pub(super) fn receive(source: &mut impl Read) -> io::Result<Option<String>> {
    let mut len = [0; 2];
    source.read_exact(&mut len)?;
    let len = usize::from(u16::from_le_bytes(len));
    if len == 0 {
        return Ok(None);
    }
    if len > LEN_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a reason of more than 1 KiB"));
    }
    let mut reason = vec![0; len];
    source.read_exact(&mut reason)?;
    Ok(Some(printable(&reason)))
}

/// Text from outside, without what would move a terminal's cursor.
pub(super) fn printable(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().filter(|character| !character.is_control()).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_reason_arrives_cut_to_its_limit_and_without_control_characters() {
        let receive = |bytes: Vec<u8>| receive(&mut bytes.as_slice()).unwrap();
        assert_eq!(receive(encode(None)), None);
        assert_eq!(receive(encode(Some("no\x1b[2J\n"))), Some("no[2J".to_owned()));
        let long = receive(encode(Some(&"é".repeat(1000)))).unwrap();
        assert_eq!(long, "é".repeat(LEN_MAX / 2));
    }

    #[test]
    fn half_a_reason_and_a_claim_of_a_long_one_are_errors() {
        let whole = encode(Some("because"));
        for len in 0..whole.len() {
            receive(&mut &whole[..len]).unwrap_err();
        }
        receive(&mut [0xff; 70_000].as_slice()).unwrap_err();
    }
}
