//! The keys and values of the text so far.

use std::fmt;

use crate::{Error, Result, config::Config};

/// Positions whose keys are interleaved.
pub(crate) const GROUP: usize = 16;

/// Keys and values of every position, layer and head, in F32; room for a fixed number of positions.
///
/// A head's values lie side by side in the order of positions. Its keys are interleaved, 16
/// positions at a time: first the first element of each, then the second. The attention thus
/// compares a query with 16 keys at once, and no sum crosses a lane. The memory is the system's
/// until it is first written.
pub struct KvCache {
    // Layers × heads × groups × head length × GROUP.
    keys: Vec<f32>,
    // Layers × heads × positions × head length, of as many positions as there are in whole groups.
    values: Vec<f32>,
    heads: usize,
    head_len: usize,
    capacity: usize,
    len: usize,
}

impl KvCache {
    /// Makes room for `capacity` positions, at most as many as the model was trained for.
    pub fn new(config: &Config, capacity: usize) -> Result<Self> {
        let fail = |reason| Err(Error::Argument { field: "context size", reason });
        if capacity == 0 || capacity > config.context_len {
            return fail(format!("is {capacity}; 1 to {} are possible", config.context_len));
        }
        let row = config.layers * config.kv_len();
        let Some(keys) = row.checked_mul(capacity.next_multiple_of(GROUP)).and_then(zeros) else {
            return fail(format!("is {capacity}, for which there is not enough memory"));
        };
        let Some(values) = zeros(keys.len()) else {
            return fail(format!("is {capacity}, for which there is not enough memory"));
        };
        let (heads, head_len) = (config.kv_heads, config.head_len);
        Ok(Self { keys, values, heads, head_len, capacity, len: 0 })
    }

    /// Positions there is room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Positions that were read.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was read yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory that this may come to use.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.keys) + size_of_val(&*self.values)
    }

    /// Forgets the positions from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Writes the keys and values of the next positions, both tokens × heads × head length, and
    /// shows what the layer then knows. They count once [`advance`](Self::advance) says so.
    pub(crate) fn store(&mut self, layer: usize, keys: &[f32], values: &[f32]) -> LayerCache<'_> {
        let tokens = keys.len() / (self.heads * self.head_len);
        let end = self.len + tokens;
        assert!(end <= self.capacity, "the tokens were counted before they were read");
        let stride = self.capacity.next_multiple_of(GROUP) * self.head_len;
        let layer_range = layer * self.heads * stride..(layer + 1) * self.heads * stride;
        let layer_keys = &mut self.keys[layer_range.clone()];
        let layer_values = &mut self.values[layer_range];
        let vectors = keys.chunks_exact(self.head_len).zip(values.chunks_exact(self.head_len));
        for (index, (key, value)) in vectors.enumerate() {
            let (position, head) = (self.len + index / self.heads, index % self.heads);
            let (group, lane) = (position / GROUP, position % GROUP);
            let start = head * stride + group * GROUP * self.head_len;
            let lanes = layer_keys[start..].iter_mut().skip(lane).step_by(GROUP);
            lanes.zip(key).for_each(|(target, source)| *target = *source);
            let start = head * stride + position * self.head_len;
            layer_values[start..][..self.head_len].copy_from_slice(value);
        }
        let (keys, values) = (layer_keys, layer_values);
        LayerCache { keys, values, stride, head_len: self.head_len, len: end }
    }

    /// Counts `tokens` positions that were stored for every layer.
    pub(crate) fn advance(&mut self, tokens: usize) {
        self.len += tokens;
    }
}

impl fmt::Debug for KvCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KvCache({} of {} positions)", self.len, self.capacity)
    }
}

/// What one layer knows of the text so far.
#[derive(Clone, Copy)]
pub(crate) struct LayerCache<'a> {
    keys: &'a [f32],
    values: &'a [f32],
    // Floats from one head to the next.
    stride: usize,
    head_len: usize,
    len: usize,
}

impl<'a> LayerCache<'a> {
    /// The keys of one head, interleaved, in whole groups.
    pub(crate) fn keys(&self, head: usize) -> &'a [f32] {
        let len = self.len.next_multiple_of(GROUP) * self.head_len;
        &self.keys[head * self.stride..][..len]
    }

    /// The values of one head, in the order of positions.
    pub(crate) fn values(&self, head: usize) -> &'a [f32] {
        &self.values[head * self.stride..][..self.len * self.head_len]
    }
}

/// Zeros that take no memory until they are written; `None` where the system cannot promise it.
fn zeros(len: usize) -> Option<Vec<f32>> {
    // Asked first, since asking for zeros ends the process where they are refused.
    Vec::<f32>::new().try_reserve_exact(len).ok()?;
    Some(vec![0.0; len])
}
