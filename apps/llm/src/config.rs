//! What a model's file says of its shape, checked before any weight is read.

mod keys;
#[cfg(test)]
mod tests;
mod weights;

use std::fmt;

use self::keys::Keys;
pub use self::weights::{Layer, Parameter, Shape, Source, Weights};
use crate::{
    Error, Result,
    gguf::{Gguf, Strings},
};

/// A family of models that [`forward`](crate::forward) can compute.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Architecture {
    /// Llama, and what has its shape (Mistral, SmolLM, …).
    Llama,
    /// Llama with biases on queries, keys and values.
    Qwen2,
    /// Llama with normalised queries and keys.
    Qwen3,
}

impl Architecture {
    /// Every architecture.
    pub const ALL: [Self; 3] = [Self::Llama, Self::Qwen2, Self::Qwen3];

    /// The name in a file, which its keys begin with.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    fn read(gguf: &Gguf<'_>) -> Result<Self> {
        let key = "general.architecture";
        let name = gguf.require::<&str>(key)?;
        Self::ALL.into_iter().find(|architecture| architecture.name() == name).ok_or_else(|| {
            let ours = Self::ALL.map(Self::name).join(", ");
            unsupported(key, format!("{name:?}; supported are {ours}"))
        })
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which elements of a head RoPE turns together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RopeOrder {
    /// Element 2i with 2i + 1, as in Llama's files.
    Adjacent,
    /// Element i with i + half, as in Qwen's.
    Halves,
}

/// How positions are told to the attention.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Rope {
    /// Which elements belong together.
    pub order: RopeOrder,
    /// Elements of a head that are turned: even, and at most the head's length.
    pub len: usize,
    /// The base of the wave lengths.
    pub theta: f32,
    /// What positions are multiplied with: 1, or less where the context was stretched.
    pub scale: f32,
    /// Whether the file has a factor for every frequency (`rope_freqs.weight`).
    pub factors: bool,
}

/// The hyper-parameters of a model. Every value was checked against the others and the tensors.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The family.
    pub architecture: Architecture,
    /// Transformer blocks.
    pub layers: usize,
    /// The length of the vector that runs through the layers.
    pub embedding_len: usize,
    /// Query heads; a multiple of `kv_heads`.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Elements of a query, key or value.
    pub head_len: usize,
    /// The length of the hidden vector of a feed-forward network.
    pub feed_forward_len: usize,
    /// Tokens that can be read and predicted.
    pub vocabulary: usize,
    /// Positions that the model was trained for.
    pub context_len: usize,
    /// What keeps RMSNorm from dividing by zero.
    pub rms_epsilon: f32,
    /// Rotary position embedding.
    pub rope: Rope,
    /// Whether the embedding serves as output matrix too.
    pub tied: bool,
    /// Whether queries, keys and values have biases.
    pub qkv_bias: bool,
    /// Whether every query and key is normalised.
    pub qk_norm: bool,
}

impl Config {
    /// Reads and checks the hyper-parameters, and that the tensors are those that they ask for.
    pub fn read(gguf: &Gguf<'_>) -> Result<Self> {
        let architecture = Architecture::read(gguf)?;
        let keys = Keys::new(gguf, architecture.name());
        refuse_experts(&keys)?;
        let embedding_len = keys.number("embedding_length", 1..=1 << 17)?;
        let heads = keys.number("attention.head_count", 1..=1024)?;
        let head_len = read_head_len(&keys, embedding_len, heads)?;
        let config = Self {
            architecture,
            layers: keys.number("block_count", 1..=1024)?,
            embedding_len,
            heads,
            kv_heads: read_kv_heads(&keys, heads)?,
            head_len,
            feed_forward_len: keys.number("feed_forward_length", 1..=1 << 20)?,
            vocabulary: read_vocabulary(&keys)?,
            context_len: keys.number("context_length", 1..=1 << 24)?,
            rms_epsilon: keys.fraction("attention.layer_norm_rms_epsilon", 0.0..1.0)?,
            rope: read_rope(&keys, architecture, head_len)?,
            tied: gguf.tensor("output.weight").is_none(),
            qkv_bias: architecture == Architecture::Qwen2
                || gguf.tensor("blk.0.attn_q.bias").is_some(),
            qk_norm: architecture == Architecture::Qwen3,
        };
        weights::check(&config, gguf)?;
        Ok(config)
    }

    /// The length of the queries of one token.
    pub fn query_len(&self) -> usize {
        self.heads * self.head_len
    }

    /// The length of the keys, or of the values, of one token in one layer.
    pub fn kv_len(&self) -> usize {
        self.kv_heads * self.head_len
    }

    /// Every tensor that the model is made of, with its shape.
    pub fn parameters(&self) -> Vec<Parameter> {
        weights::list(self)
    }
}

fn refuse_experts(keys: &Keys<'_>) -> Result<()> {
    match keys.optional("expert_count", 0..=1 << 20)? {
        None | Some(0) => Ok(()),
        Some(experts) => {
            let reason = format!("{experts}; mixtures of experts cannot be computed yet");
            Err(unsupported(keys.name("expert_count"), reason))
        }
    }
}

fn read_head_len(keys: &Keys<'_>, embedding_len: usize, heads: usize) -> Result<usize> {
    let key_len = keys.optional("attention.key_length", 1..=1024)?;
    let value_len = keys.optional("attention.value_length", 1..=1024)?;
    let head_len = match key_len.or(value_len) {
        Some(len) => len,
        None if embedding_len.is_multiple_of(heads) => embedding_len / heads,
        None => {
            let rule = format!("is {embedding_len}, no multiple of the {heads} heads");
            return Err(keys.malformed("embedding_length", rule));
        }
    };
    match value_len {
        Some(value_len) if value_len != head_len => {
            let reason = format!("{value_len}, and keys have {head_len}; they must be as long");
            Err(unsupported(keys.name("attention.value_length"), reason))
        }
        _ => Ok(head_len),
    }
}

fn read_kv_heads(keys: &Keys<'_>, heads: usize) -> Result<usize> {
    let kv_heads = keys.optional("attention.head_count_kv", 1..=heads)?.unwrap_or(heads);
    if !heads.is_multiple_of(kv_heads) {
        let rule = format!("is {kv_heads}, which does not divide the {heads} heads");
        return Err(keys.malformed("attention.head_count_kv", rule));
    }
    Ok(kv_heads)
}

/// The number of rows of the embedding, which the vocabulary must have too.
fn read_vocabulary(keys: &Keys<'_>) -> Result<usize> {
    let missing = || Error::Malformed {
        field: "tensor \"token_embd.weight\"".into(),
        reason: "is missing".into(),
    };
    let rows = keys.gguf().tensor("token_embd.weight").ok_or_else(missing)?.rows();
    let disagree = |field: String, found: usize| {
        let reason = format!("has {found} tokens, and token_embd.weight has {rows} rows");
        Err(Error::Malformed { field, reason })
    };
    if let Some(size) = keys.optional("vocab_size", 1..=1 << 24)?
        && size != rows
    {
        return disagree(keys.name("vocab_size"), size);
    }
    let key = "tokenizer.ggml.tokens";
    match keys.gguf().get::<Strings<'_>>(key)? {
        Some(tokens) if tokens.len() != rows => disagree(key.into(), tokens.len()),
        _ => Ok(rows),
    }
}

fn read_rope(keys: &Keys<'_>, architecture: Architecture, head_len: usize) -> Result<Rope> {
    let len = keys.optional("rope.dimension_count", 2..=head_len)?.unwrap_or(head_len);
    if !len.is_multiple_of(2) {
        return Err(keys.malformed("rope.dimension_count", format!("is {len}; pairs are turned")));
    }
    Ok(Rope {
        order: match architecture {
            Architecture::Llama => RopeOrder::Adjacent,
            Architecture::Qwen2 | Architecture::Qwen3 => RopeOrder::Halves,
        },
        len,
        theta: keys.optional_fraction("rope.freq_base", 0.0..f32::INFINITY)?.unwrap_or(1e4),
        scale: read_rope_scale(keys)?,
        factors: keys.gguf().tensor("rope_freqs.weight").is_some(),
    })
}

/// The factor of positions; linear scaling is what a file without a type means.
fn read_rope_scale(keys: &Keys<'_>) -> Result<f32> {
    let key = "rope.scaling.type";
    match keys.gguf().get::<&str>(&keys.name(key))? {
        None | Some("linear") => {}
        Some("none") => return Ok(1.0),
        Some(other) => {
            let reason = format!("{other:?}; supported are \"none\" and \"linear\"");
            return Err(unsupported(keys.name(key), reason));
        }
    }
    // The second name is that of older files.
    for key in ["rope.scaling.factor", "rope.scale_linear"] {
        if let Some(factor) = keys.optional_fraction(key, 0.0..f32::INFINITY)? {
            return Ok(1.0 / factor);
        }
    }
    Ok(1.0)
}

fn unsupported(field: impl Into<String>, reason: String) -> Error {
    Error::Unsupported { field: field.into(), reason }
}
