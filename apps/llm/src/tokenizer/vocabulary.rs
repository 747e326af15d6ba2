//! What a model file says about its tokens, before any of it is believed.

use crate::{
    Error, Result,
    gguf::{Gguf, Strings},
};

/// The `tokenizer.ggml.*` entries of a model file, as found.
///
/// Nothing here is checked: [`Tokenizer::new`](super::Tokenizer::new) does that.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary<'a> {
    /// `model`: how text is divided, `gpt2` (byte-level BPE) or `llama` (SentencePiece).
    pub model: &'a str,
    /// `pre`: the name of the pattern that cuts text into words; BPE only.
    pub pre: Option<&'a str>,
    /// `tokens`: the texts; a token's id is its place in here.
    pub tokens: Vec<&'a [u8]>,
    /// `scores`: how soon a token is merged; SentencePiece only.
    pub scores: Option<Vec<f32>>,
    /// `token_type`: one of ggml's numbers for each token.
    pub types: Option<Vec<i32>>,
    /// `merges`: pairs of texts with a space between, the first to be merged first; BPE only.
    pub merges: Option<Vec<&'a [u8]>>,
    /// `bos_token_id`: begins a text.
    pub bos: Option<u32>,
    /// `eos_token_id`: ends a text.
    pub eos: Option<u32>,
    /// `eot_token_id`: ends a turn of a conversation.
    pub eot: Option<u32>,
    /// `eom_token_id`: ends a message.
    pub eom: Option<u32>,
    /// `unknown_token_id`: stands for what no token spells.
    pub unknown: Option<u32>,
    /// `add_bos_token`: whether prompts begin with `bos`.
    pub add_bos: Option<bool>,
    /// `add_eos_token`: whether prompts end with `eos`.
    pub add_eos: Option<bool>,
    /// `add_space_prefix`: whether a space is put before the text; SentencePiece only.
    pub add_space_prefix: Option<bool>,
}

/// What a token is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum TokenType {
    /// Spells text.
    Normal,
    /// Stands for what no token spells.
    Unknown,
    /// Steers the model; never comes from plain text, and prints nothing.
    Control,
    /// Recognised in the text before anything is divided or merged.
    UserDefined,
    /// Fills the vocabulary up; prints nothing.
    Unused,
    /// A byte written as `<0xNN>`.
    Byte,
}

impl<'a> Vocabulary<'a> {
    /// Reads the entries of `gguf`, each of the type it must have.
    pub fn from_gguf(gguf: &Gguf<'a>) -> Result<Self> {
        let strings = |key: &str| -> Result<Option<Vec<&'a [u8]>>> {
            Ok(gguf.get::<Strings<'a>>(key)?.map(|s| s.iter().collect()))
        };
        let tokens = gguf.require::<Strings<'a>>("tokenizer.ggml.tokens")?;
        let id = |key: &str| gguf.token_id(key, tokens.len());
        Ok(Self {
            model: gguf.require("tokenizer.ggml.model")?,
            pre: gguf.get("tokenizer.ggml.pre")?,
            tokens: tokens.iter().collect(),
            scores: gguf.get("tokenizer.ggml.scores")?,
            types: gguf.get("tokenizer.ggml.token_type")?,
            merges: strings("tokenizer.ggml.merges")?,
            bos: id("tokenizer.ggml.bos_token_id")?,
            eos: id("tokenizer.ggml.eos_token_id")?,
            eot: id("tokenizer.ggml.eot_token_id")?,
            eom: id("tokenizer.ggml.eom_token_id")?,
            unknown: id("tokenizer.ggml.unknown_token_id")?,
            add_bos: gguf.get("tokenizer.ggml.add_bos_token")?,
            add_eos: gguf.get("tokenizer.ggml.add_eos_token")?,
            add_space_prefix: gguf.get("tokenizer.ggml.add_space_prefix")?,
        })
    }

    /// The types of all tokens, once the lengths and ids of this vocabulary are found to agree.
    pub(super) fn check(&self) -> Result<Vec<TokenType>> {
        if self.tokens.is_empty() {
            return Err(malformed("tokens", "there are none"));
        }
        if u32::try_from(self.tokens.len()).is_err() {
            return Err(malformed(
                "tokens",
                format!("{}, but ids have 32 bits", self.tokens.len()),
            ));
        }
        self.check_length("scores", self.scores.as_ref().map(Vec::len))?;
        self.check_length("token_type", self.types.as_ref().map(Vec::len))?;
        self.check_id("bos_token_id", self.bos)?;
        self.check_id("eos_token_id", self.eos)?;
        self.check_id("eot_token_id", self.eot)?;
        self.check_id("eom_token_id", self.eom)?;
        self.check_id("unknown_token_id", self.unknown)?;
        match &self.types {
            Some(numbers) => (0..)
                .zip(numbers)
                .zip(&self.tokens)
                .map(|((id, &number), text)| token_type(id, number, text))
                .collect(),
            None => Ok(self.guess_types()),
        }
    }

    /// `id`, or where the file names none, the one that SentencePiece's trainer gives to such
    /// tokens, provided that the token there is special.
    pub(super) fn or_usual(&self, id: Option<u32>, usual: u32, types: &[TokenType]) -> Option<u32> {
        let is_special =
            matches!(types.get(usual as usize), Some(TokenType::Control | TokenType::Unknown));
        id.or((self.model == "llama" && is_special).then_some(usual))
    }

    fn check_length(&self, key: &str, found: Option<usize>) -> Result<()> {
        match found {
            Some(found) if found != self.tokens.len() => Err(malformed(
                key,
                format!("{found} entries, but there are {} tokens", self.tokens.len()),
            )),
            _ => Ok(()),
        }
    }

    fn check_id(&self, key: &str, id: Option<u32>) -> Result<()> {
        match id {
            Some(id) if id as usize >= self.tokens.len() => {
                Err(malformed(key, format!("{id}, but there are {} tokens", self.tokens.len())))
            }
            _ => Ok(()),
        }
    }

    /// Files of the first converters name no types.
    fn guess_types(&self) -> Vec<TokenType> {
        let guess = |(id, text): (u32, &&[u8])| {
            if self.unknown == Some(id) {
                TokenType::Unknown
            } else if [self.bos, self.eos, self.eot, self.eom].contains(&Some(id)) {
                TokenType::Control
            } else if self.model == "llama" && byte_of(text).is_some() {
                TokenType::Byte
            } else {
                TokenType::Normal
            }
        };
        (0..).zip(&self.tokens).map(guess).collect()
    }
}

impl TokenType {
    /// Whether text may become such a token by merging.
    pub(super) fn is_spelled(self) -> bool {
        matches!(self, Self::Normal | Self::UserDefined | Self::Unused)
    }

    /// Whether such a token is seen in text.
    pub(super) fn is_printed(self) -> bool {
        matches!(self, Self::Normal | Self::UserDefined | Self::Byte)
    }

    /// The byte that a token of this type and `text` stands for.
    pub(super) fn byte(self, text: &[u8]) -> Option<u8> {
        if self == Self::Byte { byte_of(text) } else { None }
    }
}

/// The byte that a token of the form `<0xNN>` stands for.
fn byte_of(text: &[u8]) -> Option<u8> {
    let hex = text.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let digits = (hex.len() == 2 && hex.iter().all(u8::is_ascii_hexdigit)).then_some(hex)?;
    u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// An error about the entry `tokenizer.ggml.{key}`.
pub(super) fn malformed(key: impl std::fmt::Display, reason: impl Into<String>) -> Error {
    Error::Malformed { field: format!("tokenizer.ggml.{key}"), reason: reason.into() }
}

/// ggml's numbers; 0 is its "undefined", which prints nothing either.
fn token_type(id: u32, number: i32, text: &[u8]) -> Result<TokenType> {
    let wrong = |reason| Err(malformed(format!("token_type[{id}]"), reason));
    match number {
        0 | 5 => Ok(TokenType::Unused),
        1 => Ok(TokenType::Normal),
        2 => Ok(TokenType::Unknown),
        3 => Ok(TokenType::Control),
        4 => Ok(TokenType::UserDefined),
        6 if byte_of(text).is_some() => Ok(TokenType::Byte),
        6 => wrong(format!("a byte, but its text is {:?}", String::from_utf8_lossy(text))),
        _ => wrong(format!("{number}, but types are 0 to 6")),
    }
}
