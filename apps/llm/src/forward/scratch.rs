//! The vectors between the layers, allocated once.

use super::{BATCH, attention::Attention, rope::Turns};
use crate::{config::Config, kernels::Activations};

/// Vectors of each token of a batch, one after the other.
#[derive(Debug)]
pub(super) struct Scratch {
    /// The residual stream, tokens × embedding length.
    pub(super) stream: Vec<f32>,
    /// The stream, normalised.
    pub(super) normed: Vec<f32>,
    /// What a sub-layer adds to the stream.
    pub(super) delta: Vec<f32>,
    /// What a matrix is multiplied with.
    pub(super) input: Activations,
    /// Tokens × heads × head length.
    pub(super) query: Vec<f32>,
    /// Tokens × key and value heads × head length.
    pub(super) key: Vec<f32>,
    /// Like `key`.
    pub(super) value: Vec<f32>,
    /// What the heads found; like `query`.
    pub(super) heard: Vec<f32>,
    /// Tokens × feed-forward length.
    pub(super) gate: Vec<f32>,
    /// Like `gate`.
    pub(super) up: Vec<f32>,
    /// One for each token of the vocabulary.
    pub(super) logits: Vec<f32>,
    pub(super) attention: Attention,
    pub(super) turns: Turns,
}

impl Scratch {
    pub(super) fn new(config: &Config, rope_factors: Option<&[f32]>, capacity: usize) -> Self {
        let mut scratch = Self {
            stream: Vec::new(),
            normed: Vec::new(),
            delta: Vec::new(),
            input: Activations::new(),
            query: Vec::new(),
            key: Vec::new(),
            value: Vec::new(),
            heard: Vec::new(),
            gate: Vec::new(),
            up: Vec::new(),
            logits: vec![0.0; config.vocabulary],
            attention: Attention::new(config, capacity, BATCH),
            turns: Turns::new(&config.rope, rope_factors),
        };
        // The largest batch first: the vectors never grow again.
        scratch.set_tokens(config, BATCH.min(capacity));
        scratch
    }

    /// Makes all vectors long enough for, and no longer than, `tokens` tokens.
    pub(super) fn set_tokens(&mut self, config: &Config, tokens: usize) {
        for (vectors, len) in [
            (&mut self.stream, config.embedding_len),
            (&mut self.normed, config.embedding_len),
            (&mut self.delta, config.embedding_len),
            (&mut self.query, config.query_len()),
            (&mut self.key, config.kv_len()),
            (&mut self.value, config.kv_len()),
            (&mut self.heard, config.query_len()),
            (&mut self.gate, config.feed_forward_len),
            (&mut self.up, config.feed_forward_len),
        ] {
            vectors.resize(tokens * len, 0.0);
        }
    }
}
