//! Text to tokens and back, by the vocabulary of a model file.
//!
//! Two ways of dividing text are known: byte-level BPE and SentencePiece's. Decoding what was
//! encoded gives the text again, but for the space that SentencePiece may put before it, and for
//! U+2581, its own sign for a space. No text is refused: what a vocabulary cannot spell becomes its
//! unknown token, or nothing if it has none.

mod bpe;
mod byte_alphabet;
mod merge;
mod pretokenizer;
mod special;
mod spm;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::borrow::Cow;

use bpe::Bpe;
use special::{Finder, Part};
use spm::Spm;
use vocabulary::TokenType;

pub use special::Special;
pub use vocabulary::Vocabulary;

use crate::{Error, Result, gguf::Gguf};

/// The tokens of a model.
#[derive(Debug)]
pub struct Tokenizer {
    pieces: Pieces,
    types: Vec<TokenType>,
    model: Model,
    finder: Finder,
    bos: Option<u32>,
    eos: Option<u32>,
    /// The tokens that end the generation, in ascending order.
    ends: Vec<u32>,
    add_bos: bool,
    add_eos: bool,
}

/// The bytes that each token stands for, one after the other; of a control token, its name.
#[derive(Debug, Default)]
struct Pieces {
    bytes: Vec<u8>,
    /// Where each token ends.
    ends: Vec<usize>,
}

#[derive(Debug)]
enum Model {
    Bpe(Bpe),
    Spm(Spm),
}

impl Tokenizer {
    /// The tokenizer of a model file.
    pub fn from_gguf(gguf: &Gguf<'_>) -> Result<Self> {
        Self::new(&Vocabulary::from_gguf(gguf)?)
    }

    /// The tokenizer of `vocabulary`, if that makes sense.
    pub fn new(vocabulary: &Vocabulary<'_>) -> Result<Self> {
        let mut types = vocabulary.check()?;
        let mut ends = special::named_ends(vocabulary);
        for &end in &ends {
            types[end as usize] = TokenType::Control;
        }
        let bos = vocabulary.or_usual(vocabulary.bos, 1, &types);
        let eos = vocabulary.or_usual(vocabulary.eos, 2, &types);
        let unknown = vocabulary.or_usual(vocabulary.unknown, 0, &types);
        ends.extend([eos, vocabulary.eot, vocabulary.eom].into_iter().flatten());
        ends.sort_unstable();
        ends.dedup();

        let finder = Finder::new(&vocabulary.tokens, &types)?;
        let model = Model::new(vocabulary, &types, unknown)?;
        Ok(Self {
            pieces: model.pieces(&vocabulary.tokens, &types),
            types,
            add_bos: vocabulary.add_bos.unwrap_or(model.adds_bos()),
            add_eos: vocabulary.add_eos.unwrap_or(false),
            model,
            finder,
            bos,
            eos,
            ends,
        })
    }

    /// The tokens of `text` alone: nothing is put before or after it.
    pub fn encode(&self, text: &str, special: Special) -> Vec<u32> {
        let mut ids = Vec::new();
        for part in self.finder.split(text, special) {
            match (part, &self.model) {
                (Part::Token(id), _) => ids.push(id),
                (Part::Text(text), Model::Bpe(bpe)) => bpe.encode(text, &mut ids),
                (Part::Text(text), Model::Spm(spm)) => spm.encode(text, &mut ids),
            }
        }
        ids
    }

    /// The tokens of a prompt: those of `text`, with BOS before and EOS after it where the model
    /// wants them. A text that brings them itself is not given a second one.
    pub fn encode_prompt(&self, text: &str, special: Special) -> Vec<u32> {
        let mut ids = self.encode(text, special);
        if let Some(bos) = self.bos.filter(|_| self.add_bos)
            && ids.first() != Some(&bos)
        {
            ids.insert(0, bos);
        }
        if let Some(eos) = self.eos.filter(|_| self.add_eos)
            && ids.last() != Some(&eos)
        {
            ids.push(eos);
        }
        ids
    }

    /// The text of `ids`, where invalid UTF-8 becomes U+FFFD. Control tokens print nothing.
    ///
    /// Where the vocabulary has a space put before each text, that space is still there.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| self.piece(id)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The bytes that token `id` adds to a text; often not whole characters. Empty for control
    /// tokens and ids outside the vocabulary.
    pub fn piece(&self, id: u32) -> &[u8] {
        match self.types.get(id as usize) {
            Some(token_type) if token_type.is_printed() => self.pieces.get(id),
            _ => &[],
        }
    }

    /// As [`piece`](Self::piece), but a control token is its name.
    pub fn name(&self, id: u32) -> &[u8] {
        self.pieces.get(id)
    }

    /// Number of tokens. A model may have more rows: ids from here on print nothing.
    #[expect(clippy::len_without_is_empty, reason = "a vocabulary is never empty")]
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a text; one of [`ends`](Self::ends).
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Every token after which there is nothing more to generate, in ascending order.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Whether `id` ends the generation.
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.binary_search(&id).is_ok()
    }
}

impl Model {
    fn new(vocabulary: &Vocabulary<'_>, types: &[TokenType], unknown: Option<u32>) -> Result<Self> {
        match vocabulary.model {
            "gpt2" => Bpe::new(vocabulary, types, unknown).map(Self::Bpe),
            "llama" => Spm::new(vocabulary, types, unknown).map(Self::Spm),
            other => Err(Error::Unsupported {
                field: "tokenizer.ggml.model".into(),
                reason: format!("{other:?}; supported are \"gpt2\" and \"llama\""),
            }),
        }
    }

    /// Whether prompts begin with BOS where the file does not say.
    fn adds_bos(&self) -> bool {
        match self {
            Self::Bpe(bpe) => bpe.adds_bos(),
            Self::Spm(_) => true,
        }
    }

    /// What tokens of these texts, as the file writes them, stand for.
    fn pieces(&self, tokens: &[&[u8]], types: &[TokenType]) -> Pieces {
        let mut pieces = Pieces::default();
        for (&text, &token_type) in tokens.iter().zip(types) {
            pieces.push(&match (token_type, self) {
                (TokenType::Byte, _) => Cow::Owned(token_type.byte(text).into_iter().collect()),
                (TokenType::Normal, Self::Bpe(_)) => {
                    byte_alphabet::decode(text).map_or(Cow::Borrowed(text), Cow::Owned)
                }
                (TokenType::Normal | TokenType::UserDefined, Self::Spm(_)) => spm::printed(text),
                _ => Cow::Borrowed(text),
            });
        }
        pieces
    }
}

impl Pieces {
    fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        self.ends.push(self.bytes.len());
    }

    /// The bytes of token `id`; none outside the vocabulary.
    fn get(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let begin = if id == 0 { Some(&0) } else { self.ends.get(id - 1) };
        match (begin, self.ends.get(id)) {
            (Some(&begin), Some(&end)) => &self.bytes[begin..end],
            _ => &[],
        }
    }
}
