//! Cutting text into words before merging, as the pattern that a model was trained with does.
//!
//! The models' makers wrote the patterns as regular expressions. Here each is a scanner by hand: a
//! general engine that can look ahead, as they do, backtracks without bound, and a scanner sees
//! each character a fixed number of times.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

use crate::{Error, Result};

/// A pattern, and what the models that use it have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pretokenizer {
    pattern: Pattern,
    /// Whether a word that is a token is not built by merging (`ignore_merges`).
    pub(super) whole_words: bool,
    /// Whether prompts begin with BOS where the file does not say.
    pub(super) add_bos: bool,
}

#[derive(Clone, Copy, Debug)]
enum Pattern {
    /// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
    Gpt2,
    /// `\p{N}` by itself; GPT-2's between.
    LoneDigits,
    /// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}|`
    /// ` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
    Llama3 { digits: usize },
}

/// Which names mean which pattern.
const NAMES: [(Pretokenizer, &[&str]); 5] = [
    (
        Pretokenizer { pattern: Pattern::Gpt2, whole_words: false, add_bos: false },
        &["default", "gpt-2", "gpt2", "phi-2", "olmo", "jais", "mpt", "trillion"],
    ),
    (
        Pretokenizer { pattern: Pattern::LoneDigits, whole_words: false, add_bos: false },
        &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"],
    ),
    (
        Pretokenizer { pattern: Pattern::Llama3 { digits: 3 }, whole_words: true, add_bos: true },
        &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2"],
    ),
    (
        Pretokenizer { pattern: Pattern::Llama3 { digits: 3 }, whole_words: false, add_bos: false },
        &["dbrx", "smaug-bpe", "glm4"],
    ),
    (
        Pretokenizer { pattern: Pattern::Llama3 { digits: 1 }, whole_words: false, add_bos: false },
        &["qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez"],
    ),
];

impl Pretokenizer {
    /// The pattern called `name` in model files.
    pub(super) fn from_name(name: &str) -> Result<Self> {
        let found = NAMES.iter().find(|(_, names)| names.contains(&name));
        found.map(|&(pretokenizer, _)| pretokenizer).ok_or_else(|| {
            let supported: Vec<&str> =
                NAMES.iter().flat_map(|&(_, names)| names).copied().collect();
            Error::Unsupported {
                field: "tokenizer.ggml.pre".into(),
                reason: format!("{name:?}; supported are {}", supported.join(", ")),
            }
        })
    }

    /// The words of `text`: nothing is left out, and none is empty.
    pub(super) fn split(self, text: &str) -> impl Iterator<Item = &str> {
        Words { pattern: self.pattern, stretch: "", rest: text }
    }
}

/// The words that are still to come: those of `stretch`, then those of `rest`.
struct Words<'t> {
    pattern: Pattern,
    stretch: &'t str,
    rest: &'t str,
}

impl<'t> Iterator for Words<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        if self.stretch.is_empty() {
            if self.rest.is_empty() {
                return None;
            }
            (self.stretch, self.rest) = self.rest.split_at(self.pattern.stretch(self.rest));
        }
        let word;
        (word, self.stretch) = self.stretch.split_at(self.pattern.word(self.stretch));
        Some(word)
    }
}

impl Pattern {
    /// The length of the beginning of `text` that is cut without a look at what follows it.
    fn stretch(self, text: &str) -> usize {
        match self {
            Self::LoneDigits if starts_with(text, Class::Number) => first_length(text),
            Self::LoneDigits => run(text, |c| Class::of(c) != Class::Number),
            Self::Gpt2 | Self::Llama3 { .. } => text.len(),
        }
    }

    /// The length of the first word of `text`, which is not empty.
    fn word(self, text: &str) -> usize {
        match self {
            Self::Gpt2 | Self::LoneDigits => gpt2_word(text),
            Self::Llama3 { digits } => llama3_word(text, digits),
        }
    }
}

fn gpt2_word(text: &str) -> usize {
    if let Some(length) = contraction(text, |letter| letter) {
        return length;
    }
    let word = text.strip_prefix(' ').unwrap_or(text);
    match word.chars().next().map(Class::of) {
        None | Some(Class::Space) => spaces(text),
        Some(class) => text.len() - word.len() + run(word, |c| Class::of(c) == class),
    }
}

fn llama3_word(text: &str, digits: usize) -> usize {
    if let Some(length) = contraction(text, |letter| letter.to_ascii_lowercase()) {
        return length;
    }
    let letters = |text| run(text, |c| Class::of(c) == Class::Letter);
    let (first, rest) = text.split_at(first_length(text));
    if starts_with(first, Class::Letter) {
        letters(text)
    } else if starts_with(first, Class::Number) {
        let numbers = text.chars().take(digits).take_while(|&c| Class::of(c) == Class::Number);
        numbers.map(char::len_utf8).sum()
    } else if !first.starts_with(is_newline) && starts_with(rest, Class::Letter) {
        first.len() + letters(rest)
    } else {
        marks_or_spaces(text)
    }
}

/// ` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
fn marks_or_spaces(text: &str) -> usize {
    let marks = text.strip_prefix(' ').unwrap_or(text);
    if starts_with(marks, Class::Other) {
        let end = text.len() - marks.len() + run(marks, |c| Class::of(c) == Class::Other);
        return end + run(&text[end..], is_newline);
    }
    match text[..run(text, char::is_whitespace)].rfind(is_newline) {
        Some(newline) => newline + 1,
        None => spaces(text),
    }
}

/// `'s|'t|'re|'ve|'m|'ll|'d` at the beginning of `text`, whose letters `fold` makes comparable.
fn contraction(text: &str, fold: impl Fn(u8) -> u8) -> Option<usize> {
    let mut letters = text.strip_prefix('\'')?.bytes().map(fold);
    match (letters.next()?, letters.next()) {
        (b's' | b't' | b'm' | b'd', _) => Some(2),
        (b'r' | b'v', Some(b'e')) | (b'l', Some(b'l')) => Some(3),
        _ => None,
    }
}

/// `\s+(?!\S)|\s+`: all but the last white space before a word, which may belong to that.
fn spaces(text: &str) -> usize {
    let end = run(text, char::is_whitespace);
    let last = text[..end].chars().next_back().map_or(0, char::len_utf8);
    if end == text.len() || end == last { end } else { end - last }
}

/// The length of the longest beginning of `text` whose characters are all `wanted`.
fn run(text: &str, wanted: impl Fn(char) -> bool) -> usize {
    text.find(|c| !wanted(c)).unwrap_or(text.len())
}

fn first_length(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

fn starts_with(text: &str, class: Class) -> bool {
    text.starts_with(|c| Class::of(c) == class)
}

fn is_newline(c: char) -> bool {
    matches!(c, '\r' | '\n')
}

/// The kinds of characters that the patterns tell apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Class {
    Letter,
    Number,
    Space,
    Other,
}

impl Class {
    fn of(c: char) -> Self {
        match c {
            'a'..='z' | 'A'..='Z' => Self::Letter,
            '0'..='9' => Self::Number,
            _ if c.is_whitespace() => Self::Space,
            _ if c.is_ascii() => Self::Other,
            _ => match c.general_category_group() {
                GeneralCategoryGroup::Letter => Self::Letter,
                GeneralCategoryGroup::Number => Self::Number,
                _ => Self::Other,
            },
        }
    }
}

#[cfg(test)]
mod tests;
