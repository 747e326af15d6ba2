//! Tokens to text as they come, without ever cutting a character in two.
//!
//! A token's bytes often end inside a character. Such an end is held back until the tokens after it
//! complete it, or show that nothing can.

use crate::tokenizer::Tokenizer;

/// What control tokens print.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Control {
    /// Nothing.
    Hide,
    /// Their names, to see what a model does.
    Show,
}

/// Turns a stream of tokens into a stream of text.
///
/// All that it gives, put together, is the text of all tokens at once, invalid UTF-8 replaced by
/// U+FFFD as [`String::from_utf8_lossy`] does.
#[derive(Clone, Debug)]
pub struct Detokenizer<'t> {
    tokenizer: &'t Tokenizer,
    control: Control,
    /// The beginning of a character, at most three bytes between calls.
    tail: Vec<u8>,
    /// What the last call gave.
    text: String,
}

impl<'t> Detokenizer<'t> {
    /// A stream that begins with the next token.
    pub fn new(tokenizer: &'t Tokenizer, control: Control) -> Self {
        Self { tokenizer, control, tail: Vec::new(), text: String::new() }
    }

    /// The text that token `id` completes; often none.
    pub fn push(&mut self, id: u32) -> &str {
        self.tail.extend_from_slice(match self.control {
            Control::Hide => self.tokenizer.piece(id),
            Control::Show => self.tokenizer.name(id),
        });
        self.text.clear();
        let whole = self.take_whole();
        self.tail.drain(..whole);
        &self.text
    }

    /// What is left once no more tokens come: U+FFFD if they end inside a character. The stream can
    /// then begin anew.
    pub fn finish(&mut self) -> &str {
        self.text.clear();
        if !self.tail.is_empty() {
            self.tail.clear();
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
        &self.text
    }

    /// Appends to the text all of the tail but the beginning of a character at its end, and returns
    /// the length of what it took.
    fn take_whole(&mut self) -> usize {
        let mut taken = 0;
        for chunk in self.tail.utf8_chunks() {
            self.text.push_str(chunk.valid());
            taken += chunk.valid().len();
            if chunk.invalid().is_empty() || is_unfinished(&self.tail[taken..]) {
                break;
            }
            self.text.push(char::REPLACEMENT_CHARACTER);
            taken += chunk.invalid().len();
        }
        taken
    }
}

/// Whether `bytes` end inside their first character, so that more bytes may complete it.
fn is_unfinished(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).is_err_and(|e| e.valid_up_to() == 0 && e.error_len().is_none())
}

#[cfg(test)]
mod tests;
