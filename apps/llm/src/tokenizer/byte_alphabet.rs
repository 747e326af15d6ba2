//! GPT-2's alphabet: a printable character for each byte, so that vocabularies can be text.
//!
//! Bytes that Latin-1 prints are themselves; the others are U+0100 onwards in their order.

use std::ops::RangeInclusive;

/// The bytes that are their own characters.
const PRINTED: [RangeInclusive<u8>; 3] = [b'!'..=b'~', 0xa1..=0xac, 0xae..=0xff];

/// The bytes that `text` spells, if all its characters are of the alphabet.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    str::from_utf8(text).ok()?.chars().map(byte_of).collect()
}

/// The character of `byte`.
pub(super) fn character(byte: u8) -> char {
    let mut unprinted = ('\u{100}'..).zip(UNPRINTED);
    unprinted.find(|&(_, other)| other == byte).map_or(char::from(byte), |(c, _)| c)
}

fn byte_of(c: char) -> Option<u8> {
    match u8::try_from(c) {
        Ok(byte) => is_printed(byte).then_some(byte),
        Err(_) => UNPRINTED.get((c as usize).checked_sub(0x100)?).copied(),
    }
}

const fn is_printed(byte: u8) -> bool {
    let mut range = 0;
    while range < PRINTED.len() {
        if *PRINTED[range].start() <= byte && byte <= *PRINTED[range].end() {
            return true;
        }
        range += 1;
    }
    false
}

/// The bytes that are written as U+0100 and following.
static UNPRINTED: [u8; 68] = {
    let mut bytes = [0; 68];
    let (mut byte, mut count) = (0u8, 0);
    while count < bytes.len() {
        if !is_printed(byte) {
            bytes[count] = byte;
            count += 1;
        }
        byte = byte.wrapping_add(1);
    }
    bytes
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        let mut found: Vec<u8> = ('\0'..='\u{200}').filter_map(byte_of).collect();
        found.sort_unstable();
        assert_eq!(found, (0..=255).collect::<Vec<u8>>());
    }

    #[test]
    fn gpt2_writes_space_newline_and_soft_hyphen_beyond_latin_1() {
        assert_eq!(decode("ĠaĊŃĀ".as_bytes()), Some(vec![b' ', b'a', b'\n', 0xad, 0]));
        assert_eq!(decode("ÃŁ".as_bytes()), Some("ß".as_bytes().to_vec()));
    }

    #[test]
    fn text_outside_the_alphabet_spells_nothing() {
        for text in ["ab c".as_bytes(), "a▁".as_bytes(), b"a\xff"] {
            assert_eq!(decode(text), None);
        }
    }
}
