//! Generating text: the prompt in one go, then a token at a time.

use std::time::{Duration, Instant};

use crate::{
    Result,
    detokenizer::{Control, Detokenizer},
    forward::Session,
    sampler::Sampler,
    tokenizer::Tokenizer,
};

/// What is generated, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Tokens at most.
    pub max_tokens: usize,
    /// Go on after a token that ends a text.
    pub ignore_end: bool,
}

/// What was generated, and how fast.
#[derive(Clone, Debug)]
pub struct Generation {
    /// The new tokens, without the one that ended the text.
    pub ids: Vec<u32>,
    /// The text they are.
    pub text: String,
    /// Why there are no more.
    pub stop: Stop,
    /// The logits after the prompt.
    pub first_logits: Vec<f32>,
    /// From the start to the first token.
    pub first_token: Duration,
    /// From the first token to the last.
    pub rest: Duration,
}

/// Why generation stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stop {
    /// The model ended the text.
    End,
    /// As many tokens as were asked for are there.
    Length,
    /// The session has no room for more.
    Context,
}

impl Stop {
    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Length => "length",
            Self::Context => "context",
        }
    }
}

impl Generation {
    /// Tokens a second, after the first.
    pub fn tokens_per_second(&self) -> f64 {
        let count = self.ids.len().saturating_sub(1);
        if count == 0 { 0.0 } else { count as f64 / self.rest.as_secs_f64() }
    }
}

/// Continues `prompt` and shows `on_text` the text as it comes; `check` is asked before each token
/// whether to go on.
///
/// # Errors
///
/// Where the prompt does not fit the session, the logits are no numbers, `check` or `on_text`
/// fails.
pub fn generate(
    session: &mut Session<'_>,
    tokenizer: &Tokenizer,
    sampler: &mut Sampler,
    request: Request<'_>,
    on_text: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<Generation> {
    let Request { prompt, limits, check } = request;
    let start = Instant::now();
    let mut detokenizer = Detokenizer::new(tokenizer, Control::Hide);
    let (mut ids, mut text) = (Vec::new(), String::new());
    let mut show = |piece: &str| -> Result<()> {
        text.push_str(piece);
        on_text(piece)
    };
    check()?;
    let first_logits = session.forward(prompt)?.to_vec();
    let mut next = sampler.sample(&first_logits)?;
    let first_token = start.elapsed();
    let started = Instant::now();
    let stop = loop {
        if ids.len() >= limits.max_tokens {
            break Stop::Length;
        }
        if !limits.ignore_end && tokenizer.is_end(next) {
            break Stop::End;
        }
        ids.push(next);
        show(detokenizer.push(next))?;
        if ids.len() == limits.max_tokens {
            break Stop::Length;
        }
        if session.cache().len() == session.cache().capacity() {
            break Stop::Context;
        }
        check()?;
        next = sampler.sample(session.forward(&[next])?)?;
    };
    show(detokenizer.finish())?;
    let rest = started.elapsed();
    Ok(Generation { ids, text, stop, first_logits, first_token, rest })
}

/// What to continue, how far, and whether to go on.
pub struct Request<'a> {
    /// The tokens to continue; at least one.
    pub prompt: &'a [u32],
    /// How far.
    pub limits: Limits,
    /// Asked before each token.
    pub check: &'a dyn Fn() -> Result<()>,
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("limits", &self.limits).finish_non_exhaustive()
    }
}
