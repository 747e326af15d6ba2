//! LLM inference on weights that live in a global address space.
//!
//! A model file is read by [`gguf`], checked by [`config`], split by rows, and written into the
//! heaps of the nodes in the layout that [`kernels`] wants. [`forward`] then computes with borrowed
//! slices: it cannot tell whose memory a weight is in.

pub mod config;
pub mod detokenizer;
mod error;
pub mod forward;
pub mod generate;
pub mod gguf;
pub mod kernels;
pub mod kv_cache;
pub mod layout;
pub mod matrix;
pub mod perplexity;
pub mod plan;
pub mod pool;
mod primitive;
pub mod sampler;
pub mod tensor_type;
#[cfg(test)]
mod testing;
pub mod tokenizer;
pub mod weights;

pub use error::{Error, Result};
