//! The tensors of a model: one list of names and shapes, by which a file is checked, the weights
//! are loaded, and the forward pass finds them.

use std::collections::BTreeSet;

use super::{Config, unsupported};
use crate::{Error, Result, gguf::Gguf, tensor_type::TensorType};

/// All weights: matrices as `M`, vectors as `V`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Weights<M, V> {
    /// A row for every token.
    pub embedding: M,
    /// The transformer blocks.
    pub layers: Vec<Layer<M, V>>,
    /// Scales the last layer's output.
    pub output_norm: V,
    /// Makes logits; `None` where the embedding does.
    pub output: Option<M>,
    /// Divides the frequencies of RoPE.
    pub rope_factors: Option<V>,
}

/// The weights of one transformer block.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Layer<M, V> {
    /// Scales what the attention reads.
    pub attention_norm: V,
    /// Makes the queries of all heads.
    pub query: M,
    /// Makes the keys of all key and value heads.
    pub key: M,
    /// Makes the values of all key and value heads.
    pub value: M,
    /// Added to the queries.
    pub query_bias: Option<V>,
    /// Added to the keys.
    pub key_bias: Option<V>,
    /// Added to the values.
    pub value_bias: Option<V>,
    /// Scales the query of a head.
    pub query_norm: Option<V>,
    /// Scales the key of a head.
    pub key_norm: Option<V>,
    /// Brings what the heads found together.
    pub attention_output: M,
    /// Scales what the feed-forward network reads.
    pub feed_forward_norm: V,
    /// Makes the hidden vector that opens and shuts the other.
    pub gate: M,
    /// Makes the hidden vector.
    pub up: M,
    /// Brings the hidden vector back.
    pub down: M,
}

/// Where weights come from: a file, the heaps of a cluster, or nothing but their names.
pub trait Source {
    /// A matrix.
    type Matrix;
    /// A vector.
    type Vector;
    /// Why there is no such weight.
    type Error;

    /// The matrix called `name`.
    fn matrix(
        &mut self,
        name: &str,
        rows: usize,
        columns: usize,
    ) -> Result<Self::Matrix, Self::Error>;

    /// The vector called `name`.
    fn vector(&mut self, name: &str, len: usize) -> Result<Self::Vector, Self::Error>;
}

impl<M, V> Weights<M, V> {
    /// Takes every weight of a model like `config` from `source`.
    pub fn collect<S>(config: &Config, source: &mut S) -> Result<Self, S::Error>
    where
        S: Source<Matrix = M, Vector = V>,
    {
        let (width, vocabulary) = (config.embedding_len, config.vocabulary);
        let embedding = source.matrix("token_embd.weight", vocabulary, width)?;
        let factors = config.rope.factors.then_some(config.rope.len / 2);
        let rope_factors = optional(factors, |len| source.vector("rope_freqs.weight", len))?;
        let layer = |index| Layer::collect(config, index, source);
        let layers = (0..config.layers).map(layer).collect::<Result<_, _>>()?;
        let output_norm = source.vector("output_norm.weight", width)?;
        let untied = (!config.tied).then_some(vocabulary);
        let output = optional(untied, |rows| source.matrix("output.weight", rows, width))?;
        Ok(Self { embedding, layers, output_norm, output, rope_factors })
    }
}

impl<M, V> Layer<M, V> {
    fn collect<S>(config: &Config, index: usize, source: &mut S) -> Result<Self, S::Error>
    where
        S: Source<Matrix = M, Vector = V>,
    {
        let name = |part: &str| format!("blk.{index}.{part}");
        let (width, hidden) = (config.embedding_len, config.feed_forward_len);
        let (query_len, kv_len) = (config.query_len(), config.kv_len());
        let bias = |len| config.qkv_bias.then_some(len);
        let norm = config.qk_norm.then_some(config.head_len);
        Ok(Self {
            attention_norm: source.vector(&name("attn_norm.weight"), width)?,
            query: source.matrix(&name("attn_q.weight"), query_len, width)?,
            key: source.matrix(&name("attn_k.weight"), kv_len, width)?,
            value: source.matrix(&name("attn_v.weight"), kv_len, width)?,
            query_bias: optional(bias(query_len), |n| source.vector(&name("attn_q.bias"), n))?,
            key_bias: optional(bias(kv_len), |n| source.vector(&name("attn_k.bias"), n))?,
            value_bias: optional(bias(kv_len), |n| source.vector(&name("attn_v.bias"), n))?,
            query_norm: optional(norm, |n| source.vector(&name("attn_q_norm.weight"), n))?,
            key_norm: optional(norm, |n| source.vector(&name("attn_k_norm.weight"), n))?,
            attention_output: source.matrix(&name("attn_output.weight"), width, query_len)?,
            feed_forward_norm: source.vector(&name("ffn_norm.weight"), width)?,
            gate: source.matrix(&name("ffn_gate.weight"), hidden, width)?,
            up: source.matrix(&name("ffn_up.weight"), hidden, width)?,
            down: source.matrix(&name("ffn_down.weight"), width, hidden)?,
        })
    }
}

/// A weight of length `len`, where the model has it.
fn optional<T, E>(
    len: Option<usize>,
    take: impl FnOnce(usize) -> Result<T, E>,
) -> Result<Option<T>, E> {
    len.map(take).transpose()
}

/// The shape of a weight.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shape {
    /// Rows of columns.
    Matrix {
        /// One output each.
        rows: usize,
        /// One input each.
        columns: usize,
    },
    /// So many numbers.
    Vector(usize),
}

/// A weight that a model has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Parameter {
    /// The tensor's name in the file.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
}

/// Every weight of a model like `config`.
pub(super) fn list(config: &Config) -> Vec<Parameter> {
    let mut names = Names(Vec::new());
    let Ok(_) = Weights::collect(config, &mut names);
    names.0
}

/// A source that only takes down what it is asked for.
struct Names(Vec<Parameter>);

impl Source for Names {
    type Matrix = ();
    type Vector = ();
    type Error = std::convert::Infallible;

    fn matrix(&mut self, name: &str, rows: usize, columns: usize) -> Result<(), Self::Error> {
        self.0.push(Parameter { name: name.into(), shape: Shape::Matrix { rows, columns } });
        Ok(())
    }

    fn vector(&mut self, name: &str, len: usize) -> Result<(), Self::Error> {
        self.0.push(Parameter { name: name.into(), shape: Shape::Vector(len) });
        Ok(())
    }
}

/// Checks that `gguf` has every weight in its right shape, and no other.
///
/// A tensor that nobody asks for means that the file is of another kind of model, whose answers
/// would be wrong without it.
pub(super) fn check(config: &Config, gguf: &Gguf<'_>) -> Result<()> {
    let parameters = list(config);
    for parameter in &parameters {
        parameter.check(gguf)?;
    }
    let known: BTreeSet<_> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    let unknown = |name: &&str| !known.contains(name);
    let unknown: Vec<_> = gguf.tensors().iter().map(|t| t.name()).filter(unknown).collect();
    match unknown.as_slice() {
        [] => Ok(()),
        [first, ..] => {
            let architecture = config.architecture;
            let reason = format!("{} that {architecture} does not have: {first} …", unknown.len());
            Err(unsupported("tensors", reason))
        }
    }
}

impl Parameter {
    fn check(&self, gguf: &Gguf<'_>) -> Result<()> {
        let fail = |reason: String| {
            Err(Error::Malformed { field: format!("tensor {:?}", self.name), reason })
        };
        let Some(tensor) = gguf.tensor(&self.name) else { return fail("is missing".into()) };
        let wanted = match self.shape {
            Shape::Matrix { rows, columns } => vec![columns, rows],
            Shape::Vector(len) => vec![len],
        };
        if tensor.dimensions() != wanted {
            return fail(format!("is {:?}, and should be {wanted:?}", tensor.dimensions()));
        }
        let found = tensor.tensor_type();
        if matches!(self.shape, Shape::Vector(_)) && found != TensorType::F32 {
            return fail(format!("is of type {}; vectors should be F32", found.name()));
        }
        Ok(())
    }
}
