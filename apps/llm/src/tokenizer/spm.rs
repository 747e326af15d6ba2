//! SentencePiece's division: one sequence per text, merged by the scores of the results.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use super::{
    merge::{Merge, Merger},
    vocabulary::{TokenType, Vocabulary, malformed},
};
use crate::Result;

/// Divides text into characters and merges what is a token, the highest score first.
#[derive(Debug)]
pub(super) struct Spm {
    /// The tokens that text may become.
    spelling: HashMap<Box<[u8]>, u32>,
    /// The priority of each token: its score, turned so that the highest is the smallest.
    priorities: Vec<u32>,
    /// The tokens of single bytes.
    bytes: Vec<Option<u32>>,
    unknown: Option<u32>,
    /// The length of the longest token, which saves the hashing of longer texts.
    longest: usize,
    /// The characters that stand before a space inside of a token.
    before_space: HashSet<char>,
    add_space_prefix: bool,
}

/// What SentencePiece writes instead of a space.
const SPACE: &str = "\u{2581}";

/// The id of a character that is no token.
const NONE: u32 = u32::MAX;

impl Spm {
    pub(super) fn new(
        vocabulary: &Vocabulary<'_>,
        types: &[TokenType],
        unknown: Option<u32>,
    ) -> Result<Self> {
        let Some(scores) = &vocabulary.scores else {
            return Err(malformed("scores", "missing, but a llama tokenizer needs them"));
        };
        if let Some(place) = scores.iter().position(|score| score.is_nan()) {
            return Err(malformed(format!("scores[{place}]"), "not a number"));
        }
        let priorities = scores.iter().map(|&score| priority(score)).collect();
        let mut spelling = HashMap::with_capacity(types.len());
        let mut bytes = vec![None; 256];
        for ((id, &text), token_type) in (0..).zip(&vocabulary.tokens).zip(types) {
            // Of two tokens with one text, the first is the one that text becomes.
            if token_type.is_spelled() {
                spelling.entry(text.into()).or_insert(id);
            } else if let Some(byte) = token_type.byte(text) {
                bytes[usize::from(byte)].get_or_insert(id);
            }
        }
        let longest = vocabulary.tokens.iter().map(|text| text.len()).max().unwrap_or(0);
        let before_space = vocabulary
            .tokens
            .iter()
            .filter_map(|text| str::from_utf8(text).ok())
            .flat_map(|text| spaces(text).filter_map(|at| text[..at].chars().next_back()))
            .collect();
        let add_space_prefix = vocabulary.add_space_prefix.unwrap_or(true);
        Ok(Self { spelling, priorities, bytes, unknown, longest, before_space, add_space_prefix })
    }

    /// Appends the tokens of `text`, a whole text or what stands between two special tokens.
    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let prefix = if self.add_space_prefix { " " } else { "" };
        let text = [prefix, text].concat().replace(' ', SPACE);
        let mut merger = Merger::default();
        let mut begin = 0;
        for end in self.seams(&text).chain([text.len()]) {
            self.divide(&text[begin..end], &mut merger, ids);
            begin = end;
        }
    }

    /// Where no merge can reach across, so that each part of `text` can be divided by itself: few
    /// vocabularies have a token with a space between two words. Short parts are merged sooner.
    fn seams(&self, text: &str) -> impl Iterator<Item = usize> {
        let joins = |c| self.before_space.contains(&c);
        spaces(text).filter(move |&at| !text[..at].chars().next_back().is_some_and(joins))
    }

    fn divide(&self, text: &str, merger: &mut Merger, ids: &mut Vec<u32>) {
        for (start, c) in text.char_indices() {
            let length = c.len_utf8();
            merger.push(self.token(text, start, start + length).unwrap_or(NONE), length);
        }
        merger.merge(
            |left, right| {
                let id = self.token(text, left.start, right.end)?;
                Some(Merge { priority: self.priorities[id as usize], id })
            },
            |symbol| match symbol.id {
                NONE => self.emit_bytes(&text.as_bytes()[symbol.start..symbol.end], ids),
                id => ids.push(id),
            },
        );
    }

    fn token(&self, text: &str, start: usize, end: usize) -> Option<u32> {
        if end - start > self.longest {
            return None;
        }
        self.spelling.get(&text.as_bytes()[start..end]).copied()
    }

    /// Appends a character that is no token: its bytes where each of them is one, otherwise the
    /// unknown token, if there is one.
    fn emit_bytes(&self, character: &[u8], ids: &mut Vec<u32>) {
        let bytes = character.iter().map(|&byte| self.bytes[usize::from(byte)]);
        match bytes.collect::<Option<Vec<u32>>>() {
            Some(bytes) => ids.extend(bytes),
            None => ids.extend(self.unknown),
        }
    }
}

/// Where a [`SPACE`] begins.
fn spaces(text: &str) -> impl Iterator<Item = usize> {
    text.match_indices(SPACE).map(|(at, _)| at)
}

/// The text that a token prints.
pub(super) fn printed(text: &[u8]) -> Cow<'_, [u8]> {
    match str::from_utf8(text) {
        Ok(text) if text.contains(SPACE) => Cow::Owned(text.replace(SPACE, " ").into()),
        _ => Cow::Borrowed(text),
    }
}

/// The bits of a positive float grow with it, those of a negative one as it falls. Both zeros are
/// positive here.
fn priority(score: f32) -> u32 {
    let bits = score.to_bits();
    if score < 0.0 { bits } else { !(bits | 1 << 31) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_scores_come_first() {
        let descending = [f32::INFINITY, 3.5, 1e-30, 0.0, -1e-30, -2.0, -1e9, f32::NEG_INFINITY];
        assert!(descending.map(priority).is_sorted_by(|a, b| a < b));
        assert_eq!(priority(0.0), priority(-0.0));
    }
}
