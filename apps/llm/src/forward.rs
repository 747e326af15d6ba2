//! The forward pass: from tokens to logits, on weights that are only borrowed.
//!
//! Everything is computed token by token, in an order that depends on neither the threads nor the
//! shards nor how a prompt was cut in batches: the same tokens give the same logits, to the bit.

mod attention;
mod math;
mod rope;
mod scratch;
mod widest;

use std::fmt;

use self::scratch::Scratch;
use crate::{
    Error, Result,
    config::{self, Config},
    kernels::{Kernels, Product},
    kv_cache::KvCache,
    matrix::Matrix,
    pool::Pool,
};

/// Tokens that go through the layers together; more would only take more memory.
const BATCH: usize = 64;

/// A model's weights, wherever they live.
pub type Weights<'a> = config::Weights<Matrix<'a>, &'a [f32]>;
type Layer<'a> = config::Layer<Matrix<'a>, &'a [f32]>;

/// A model that is ready to compute: its shape, its weights, and what computes with them.
pub struct Model<'a> {
    config: &'a Config,
    weights: Weights<'a>,
    kernels: Kernels,
    pool: Pool,
}

impl<'a> Model<'a> {
    /// Joins a model's weights, collected by `config`, with what computes.
    pub fn new(config: &'a Config, weights: Weights<'a>, kernels: Kernels, pool: Pool) -> Self {
        Self { config, weights, kernels, pool }
    }

    /// The model's shape.
    pub fn config(&self) -> &'a Config {
        self.config
    }

    /// Begins an empty text of at most `capacity` tokens.
    pub fn session(&self, capacity: usize) -> Result<Session<'_>> {
        let cache = KvCache::new(self.config, capacity)?;
        let scratch = Scratch::new(self.config, self.weights.rope_factors, capacity);
        Ok(Session { model: self, cache, scratch })
    }
}

impl fmt::Debug for Model<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("config", self.config).finish_non_exhaustive()
    }
}

/// One text that grows token by token. All memory it needs is taken when it begins.
#[derive(Debug)]
pub struct Session<'m> {
    model: &'m Model<'m>,
    cache: KvCache,
    scratch: Scratch,
}

impl Session<'_> {
    /// Reads `tokens` at the end of the text, and gives the logits of what follows them.
    pub fn forward(&mut self, tokens: &[u32]) -> Result<&[f32]> {
        self.check(tokens)?;
        let mut last = 0;
        for batch in tokens.chunks(BATCH) {
            self.read(batch);
            last = batch.len() - 1;
        }
        Ok(self.logits(last))
    }

    /// Reads `tokens` at the end of the text, and shows `visit` the place of each of them and the
    /// logits of what follows it.
    pub fn forward_each(
        &mut self,
        tokens: &[u32],
        mut visit: impl FnMut(usize, &[f32]),
    ) -> Result<()> {
        self.check(tokens)?;
        for (index, batch) in tokens.chunks(BATCH).enumerate() {
            self.read(batch);
            for token in 0..batch.len() {
                visit(index * BATCH + token, self.logits(token));
            }
        }
        Ok(())
    }

    /// What the text so far is remembered by.
    pub fn cache(&self) -> &KvCache {
        &self.cache
    }

    /// Forgets the text from position `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.cache.truncate(len);
    }

    fn check(&self, tokens: &[u32]) -> Result<()> {
        let fail = |reason| Err(Error::Argument { field: "tokens", reason });
        let vocabulary = self.model.config.vocabulary;
        if tokens.is_empty() {
            return fail("there is none; at least one is needed".into());
        }
        if let Some(id) = tokens.iter().find(|&&id| id as usize >= vocabulary) {
            return fail(format!("{id} is none; the vocabulary has {vocabulary} tokens"));
        }
        let (len, capacity) = (self.cache.len() + tokens.len(), self.cache.capacity());
        if len > capacity {
            return fail(format!("the text would have {len}, and there is room for {capacity}"));
        }
        Ok(())
    }

    /// Takes one batch through all layers; `scratch.stream` is what comes out.
    fn read(&mut self, tokens: &[u32]) {
        let Model { config, weights, kernels, .. } = self.model;
        let scratch = &mut self.scratch;
        scratch.set_tokens(config, tokens.len());
        let stream = scratch.stream.chunks_exact_mut(config.embedding_len);
        for (vector, &token) in stream.zip(tokens) {
            kernels.row(&weights.embedding, token as usize, vector);
        }
        scratch.turns.set(self.cache.len(), tokens.len());
        for (index, layer) in weights.layers.iter().enumerate() {
            self.attend(index, layer);
            self.feed_forward(layer);
        }
        self.cache.advance(tokens.len());
    }

    /// stream += output · attention(rope(query · norm(stream)), …)
    fn attend(&mut self, index: usize, layer: &Layer<'_>) {
        let Model { config, kernels, pool, .. } = self.model;
        let s = &mut self.scratch;

        math::rms_norm(&s.stream, layer.attention_norm, config.rms_epsilon, &mut s.normed);
        s.input.set(&s.normed, config.embedding_len);
        let query = Product { matrix: &layer.query, output: &mut s.query };
        let key = Product { matrix: &layer.key, output: &mut s.key };
        let value = Product { matrix: &layer.value, output: &mut s.value };
        kernels.multiply(pool, &s.input, &mut [query, key, value]);

        for (vectors, bias) in [
            (&mut s.query, layer.query_bias),
            (&mut s.key, layer.key_bias),
            (&mut s.value, layer.value_bias),
        ] {
            if let Some(bias) = bias {
                math::add_to_each(vectors, bias);
            }
        }
        for (heads, norm) in [(&mut s.query, layer.query_norm), (&mut s.key, layer.key_norm)] {
            if let Some(norm) = norm {
                math::rms_norm_in_place(heads, norm, config.rms_epsilon);
            }
            s.turns.turn(heads, config.head_len);
        }
        let cache = self.cache.store(index, &s.key, &s.value);
        s.attention.run(pool, cache, &s.query, &mut s.heard);

        s.input.set(&s.heard, config.query_len());
        let output = Product { matrix: &layer.attention_output, output: &mut s.delta };
        kernels.multiply(pool, &s.input, &mut [output]);
        math::add(&mut s.stream, &s.delta);
    }

    /// stream += down · (silu(gate · norm(stream)) × (up · norm(stream)))
    fn feed_forward(&mut self, layer: &Layer<'_>) {
        let Model { config, kernels, pool, .. } = self.model;
        let s = &mut self.scratch;

        math::rms_norm(&s.stream, layer.feed_forward_norm, config.rms_epsilon, &mut s.normed);
        s.input.set(&s.normed, config.embedding_len);
        let gate = Product { matrix: &layer.gate, output: &mut s.gate };
        let up = Product { matrix: &layer.up, output: &mut s.up };
        kernels.multiply(pool, &s.input, &mut [gate, up]);
        math::swiglu(&mut s.gate, &s.up);

        s.input.set(&s.gate, config.feed_forward_len);
        let down = Product { matrix: &layer.down, output: &mut s.delta };
        kernels.multiply(pool, &s.input, &mut [down]);
        math::add(&mut s.stream, &s.delta);
    }

    /// The logits after one token of the last batch: output · norm(stream)
    fn logits(&mut self, token: usize) -> &[f32] {
        let Model { config, weights, kernels, pool } = self.model;
        let s = &mut self.scratch;
        let width = config.embedding_len;
        let (stream, normed) = (&s.stream[token * width..][..width], &mut s.normed[..width]);

        math::rms_norm(stream, weights.output_norm, config.rms_epsilon, normed);
        s.input.set(normed, width);
        let matrix = weights.output.as_ref().unwrap_or(&weights.embedding);
        kernels.multiply(pool, &s.input, &mut [Product { matrix, output: &mut s.logits }]);
        &s.logits
    }
}
