//! Tokens that are found in text as they stand, and tokens that end the generation.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::vocabulary::{TokenType, Vocabulary, malformed};
use crate::Result;

/// What becomes of control tokens that are written out in a text.
///
/// User-defined tokens are recognised always: they are part of how the model reads text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Special {
    /// They are recognised: for templates and other text of the program's own.
    Parse,
    /// They are characters like all others: for text of strangers, who must not steer the model.
    Text,
}

/// A stretch of a text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Part<'t> {
    Text(&'t str),
    Token(u32),
}

/// Finds special tokens, the leftmost first and the longest of those.
#[derive(Debug)]
pub(super) struct Finder {
    /// Those recognised in all text, and those recognised when asked for.
    always: Patterns,
    parsed: Patterns,
}

#[derive(Debug)]
struct Patterns {
    automaton: AhoCorasick,
    ids: Vec<u32>,
}

impl Finder {
    pub(super) fn new(tokens: &[&[u8]], types: &[TokenType]) -> Result<Self> {
        let find = |wanted: &[TokenType]| Patterns::new(tokens, types, wanted);
        Ok(Self {
            always: find(&[TokenType::UserDefined])?,
            parsed: find(&[TokenType::UserDefined, TokenType::Control, TokenType::Unknown])?,
        })
    }

    /// Cuts `text` at the special tokens. No part is empty.
    pub(super) fn split<'t>(&self, text: &'t str, special: Special) -> Vec<Part<'t>> {
        let Patterns { automaton, ids } = match special {
            Special::Parse => &self.parsed,
            Special::Text => &self.always,
        };
        let mut parts = Vec::new();
        let mut rest = 0;
        for found in automaton.find_iter(text) {
            if rest < found.start() {
                parts.push(Part::Text(&text[rest..found.start()]));
            }
            parts.push(Part::Token(ids[found.pattern().as_usize()]));
            rest = found.end();
        }
        if rest < text.len() {
            parts.push(Part::Text(&text[rest..]));
        }
        parts
    }
}

impl Patterns {
    fn new(tokens: &[&[u8]], types: &[TokenType], wanted: &[TokenType]) -> Result<Self> {
        // A token that is no UTF-8 could match inside a character.
        let found = (0..).zip(tokens).zip(types).filter(|&((_, text), t)| {
            wanted.contains(t) && !text.is_empty() && str::from_utf8(text).is_ok()
        });
        let (ids, texts): (Vec<u32>, Vec<&[u8]>) = found.map(|((id, &text), _)| (id, text)).unzip();
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            // The other kind in question takes a kilobyte for each byte of a token.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(texts)
            .map_err(|e| malformed("token_type", format!("too many special tokens: {e}")))?;
        Ok(Self { automaton, ids })
    }
}

/// Names by which models of many makers end their turn or their text. Files often declare only one
/// of a model's end tokens, or declare them as normal.
const END_NAMES: [&str; 13] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
    "<EOT>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
];

/// The ids of the tokens that are known by name to end the generation.
pub(super) fn named_ends(vocabulary: &Vocabulary<'_>) -> Vec<u32> {
    let named = |text: &[u8]| END_NAMES.iter().any(|name| name.as_bytes() == text);
    (0..).zip(&vocabulary.tokens).filter(|(_, text)| named(text)).map(|(id, _)| id).collect()
}
