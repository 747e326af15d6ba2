//! Attention: every query head looks at all keys so far, and takes in their values by likeness.

use std::sync::{Mutex, MutexGuard};

use super::{
    math,
    widest::{Work, widest},
};
use crate::{
    config::Config,
    kv_cache::{GROUP, LayerCache},
    pool::Pool,
};

/// Multiplications below which waking the other threads costs more than they help.
const WORTH_SHARING: usize = 1 << 15;

/// The heads, each with memory of its own, so that any thread can compute any of them.
#[derive(Debug)]
pub(super) struct Attention {
    heads: Vec<Mutex<Head>>,
    // Query heads that share a key and value head.
    group: usize,
    head_len: usize,
}

#[derive(Debug)]
struct Head {
    // One for each position, in whole groups.
    scores: Vec<f32>,
    // Tokens × head length.
    output: Vec<f32>,
}

impl Attention {
    /// Heads that see up to `capacity` positions, of up to `tokens` tokens at a time.
    pub(super) fn new(config: &Config, capacity: usize, tokens: usize) -> Self {
        let head_len = config.head_len;
        let head = |_| {
            let output = Vec::with_capacity(tokens * head_len);
            Mutex::new(Head { scores: vec![0.0; capacity.next_multiple_of(GROUP)], output })
        };
        let heads = (0..config.heads).map(head).collect();
        Self { heads, group: config.heads / config.kv_heads, head_len }
    }

    /// Lets every head of every token in `query` look at `cache`, where the tokens' own keys and
    /// values are the last ones. Both vectors are tokens × heads × head length.
    pub(super) fn run(
        &self,
        pool: &Pool,
        cache: LayerCache<'_>,
        query: &[f32],
        output: &mut [f32],
    ) {
        let row = self.heads.len() * self.head_len;
        let part = |head: usize| head * self.head_len..(head + 1) * self.head_len;
        let task = |head: usize| {
            let queries = query.chunks_exact(row).map(|token| &token[part(head)]);
            let kv_head = head / self.group;
            self.lock(head).run(cache.keys(kv_head), cache.values(kv_head), queries);
        };
        if query.len() / self.head_len * cache.values(0).len() < WORTH_SHARING {
            (0..self.heads.len()).for_each(task);
        } else {
            pool.run(self.heads.len(), &task);
        }
        for head in 0..self.heads.len() {
            let found = self.lock(head);
            let found = found.output.chunks_exact(self.head_len);
            for (token, found) in output.chunks_exact_mut(row).zip(found) {
                token[part(head)].copy_from_slice(found);
            }
        }
    }

    /// One head's memory. Nobody waits for it: a head is one task's, and the tasks are over when
    /// their caller looks.
    fn lock(&self, head: usize) -> MutexGuard<'_, Head> {
        self.heads[head].lock().expect("no task panicked")
    }
}

impl Head {
    /// Answers the queries of one batch: the last one sees all positions, each before it one less.
    fn run<'q>(
        &mut self,
        keys: &[f32],
        values: &[f32],
        queries: impl ExactSizeIterator<Item = &'q [f32]>,
    ) {
        self.output.clear();
        let unseen = queries.len() - 1;
        for (token, query) in queries.enumerate() {
            let start = self.output.len();
            self.output.resize(start + query.len(), 0.0);
            let seen = values.len() / query.len() - (unseen - token);
            widest(Look {
                query,
                keys,
                values: &values[..seen * query.len()],
                seen,
                scores: &mut self.scores[..seen.next_multiple_of(GROUP)],
                output: &mut self.output[start..],
            });
        }
    }
}

/// One query of one head.
struct Look<'a> {
    query: &'a [f32],
    keys: &'a [f32],
    values: &'a [f32],
    // Positions that the query may see; the keys may be of more.
    seen: usize,
    // One for each of them, and for the rest of their last group.
    scores: &'a mut [f32],
    // Zeros, to which the values are added.
    output: &'a mut [f32],
}

impl Work for Look<'_> {
    #[inline(always)]
    fn run(self) {
        let scale = 1.0 / small_float(self.query.len()).sqrt();
        math::score(self.query, self.keys, scale, self.scores);
        let weights = &mut self.scores[..self.seen];
        math::softmax(weights);
        math::add_weighted(self.output, weights, self.values);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a head has far fewer than 2^24 elements")]
fn small_float(len: usize) -> f32 {
    len as f32
}
