//! Byte-level byte-pair encoding, as GPT-2, Llama 3 and Qwen2 do it.

use std::collections::HashMap;

use super::{
    byte_alphabet,
    merge::{Merge, Merger},
    pretokenizer::Pretokenizer,
    vocabulary::{TokenType, Vocabulary, malformed},
};
use crate::Result;

/// Divides text into words, words into bytes, and merges those by the rank of their pairs.
///
/// Ids are those of the vocabulary, and above them ids of our own for texts that merges name and
/// no token spells. They let such merges be steps on the way to a token.
#[derive(Debug)]
pub(super) struct Bpe {
    pretokenizer: Pretokenizer,
    /// The symbol of each byte.
    bytes: Vec<u32>,
    /// What two symbols become.
    merges: HashMap<(u32, u32), Merge>,
    /// The tokens that need no merging; empty unless the pretokenizer wants them.
    words: HashMap<Box<[u8]>, u32>,
    /// The texts of our own ids, which begin here.
    own: Vec<Box<[u8]>>,
    own_begin: u32,
    unknown: Option<u32>,
}

impl Bpe {
    pub(super) fn new(
        vocabulary: &Vocabulary<'_>,
        types: &[TokenType],
        unknown: Option<u32>,
    ) -> Result<Self> {
        let pretokenizer = Pretokenizer::from_name(vocabulary.pre.unwrap_or("default"))?;
        let Some(merges) = &vocabulary.merges else {
            return Err(malformed("merges", "missing, but a gpt2 tokenizer needs them"));
        };
        let mut symbols = Symbols::new(&vocabulary.tokens, types)?;
        let bytes = (0..=u8::MAX)
            .map(|byte| symbols.id(byte_alphabet::character(byte).to_string().as_bytes()))
            .collect::<Result<_>>()?;
        let merges = symbols.merge_table(merges)?;
        let words = if pretokenizer.whole_words { symbols.words() } else { HashMap::new() };
        let Symbols { own, own_begin, .. } = symbols;
        Ok(Self { pretokenizer, bytes, merges, words, own, own_begin, unknown })
    }

    /// Whether prompts begin with BOS where the file does not say.
    pub(super) fn adds_bos(&self) -> bool {
        self.pretokenizer.add_bos
    }

    /// Appends the tokens of `text` to `ids`.
    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let mut merger = Merger::default();
        for word in self.pretokenizer.split(text) {
            if let Some(&id) = self.words.get(word.as_bytes()) {
                ids.push(id);
                continue;
            }
            for byte in word.bytes() {
                merger.push(self.bytes[usize::from(byte)], 1);
            }
            merger.merge(
                |left, right| self.merges.get(&(left.id, right.id)).copied(),
                |symbol| self.emit(symbol.id, ids),
            );
        }
    }

    /// Appends symbol `id`: a text that is no token by its bytes, and a byte that is none by the
    /// unknown token, if there is one.
    fn emit(&self, id: u32, ids: &mut Vec<u32>) {
        let Some(text) = self.own_text(id) else { return ids.push(id) };
        for &byte in text {
            let id = self.bytes[usize::from(byte)];
            ids.extend(if id < self.own_begin { Some(id) } else { self.unknown });
        }
    }

    fn own_text(&self, id: u32) -> Option<&[u8]> {
        self.own.get(id.checked_sub(self.own_begin)? as usize).map(Box::as_ref)
    }
}

/// The ids of texts, which are here as the file writes them, while merges are read.
struct Symbols<'a> {
    ids: HashMap<&'a [u8], u32>,
    own: Vec<Box<[u8]>>,
    own_ids: HashMap<Box<[u8]>, u32>,
    own_begin: u32,
}

impl<'a> Symbols<'a> {
    fn new(tokens: &'a [&'a [u8]], types: &[TokenType]) -> Result<Self> {
        let own_begin = u32::try_from(tokens.len()).map_err(|_| malformed("tokens", "too many"))?;
        let mut ids = HashMap::with_capacity(tokens.len());
        for ((id, &text), token_type) in (0..).zip(tokens).zip(types) {
            if token_type.is_spelled() {
                // Of two tokens with one text, the first is the one that text becomes.
                ids.entry(text).or_insert(id);
            }
        }
        Ok(Self { ids, own: Vec::new(), own_ids: HashMap::new(), own_begin })
    }

    /// The id of `text`, one of our own if no token spells it.
    fn id(&mut self, text: &[u8]) -> Result<u32> {
        if let Some(&id) = self.ids.get(text).or_else(|| self.own_ids.get(text)) {
            return Ok(id);
        }
        let Some(bytes) = byte_alphabet::decode(text) else {
            let found = String::from_utf8_lossy(text);
            return Err(malformed("merges", format!("{found:?} is not spelled in bytes")));
        };
        let count = u32::try_from(self.own.len()).ok();
        let id = count.and_then(|count| self.own_begin.checked_add(count));
        let id = id.ok_or_else(|| malformed("merges", "too many texts that are no tokens"))?;
        self.own_ids.insert(text.into(), id);
        self.own.push(bytes.into());
        Ok(id)
    }

    /// What each pair of symbols becomes.
    fn merge_table(&mut self, merges: &[&[u8]]) -> Result<HashMap<(u32, u32), Merge>> {
        let mut table = HashMap::with_capacity(merges.len());
        let mut text = Vec::new();
        for (priority, merge) in (0..).zip(merges) {
            let (left, right) = halves(priority, merge)?;
            text.clear();
            text.extend_from_slice(left);
            text.extend_from_slice(right);
            let pair = (self.id(left)?, self.id(right)?);
            let merge = Merge { priority, id: self.id(&text)? };
            table.entry(pair).or_insert(merge);
        }
        Ok(table)
    }

    /// The tokens by their bytes.
    fn words(&self) -> HashMap<Box<[u8]>, u32> {
        let word = |(text, id): (&&[u8], &u32)| Some((byte_alphabet::decode(text)?.into(), *id));
        self.ids.iter().filter_map(word).collect()
    }
}

/// The two texts of the merge at `place`, which has a space between.
fn halves(place: u32, merge: &[u8]) -> Result<(&[u8], &[u8])> {
    match merge.iter().position(|&byte| byte == b' ') {
        Some(space) if space > 0 && space + 1 < merge.len() => {
            Ok((&merge[..space], &merge[space + 1..]))
        }
        _ => {
            let found = String::from_utf8_lossy(merge);
            let reason = format!("{found:?} is not two texts with a space between");
            Err(malformed(format!("merges[{place}]"), reason))
        }
    }
}
