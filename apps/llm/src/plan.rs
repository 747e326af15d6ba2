//! Which rows of which tensor live in whose heap.
//!
//! Every matrix is cut by rows into one piece a node, as evenly as groups of rows allow; vectors
//! are small, and dealt out in turn. All nodes make the same plan from the file's header, so that
//! none need be told.

use std::ops::Range;

use crate::{
    Error, Result,
    config::{Config, Shape},
    gguf::Gguf,
    layout::{self, GROUP},
    tensor_type::TensorType,
};

/// Where a piece begins in its node's bytes: with a cache line, or an AVX-512 register.
const ALIGN: usize = 64;

/// Where all weights of a model live.
#[derive(Clone, Debug)]
pub struct Plan {
    tensors: Vec<Placed>,
    // The nodes that hold weights.
    holders: Range<usize>,
    // Packed bytes and floats, by node.
    bytes: Vec<usize>,
    floats: Vec<usize>,
}

/// A tensor, and where it lives.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Its name in the file.
    pub name: String,
    /// How it is stored.
    pub tensor_type: TensorType,
    /// Its shape.
    pub shape: Shape,
    /// Bytes of it in the file.
    pub file: Range<usize>,
    /// Its pieces, in order; the one of a vector is whole.
    pub pieces: Vec<Piece>,
}

/// Rows of a matrix, or all of a vector, in one node's heap.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The node's number.
    pub node: usize,
    /// The rows of a matrix, or the numbers of a vector.
    pub rows: Range<usize>,
    /// Where it is among the node's packed bytes (matrices) or floats (vectors).
    pub place: Range<usize>,
}

impl Plan {
    /// Deals the tensors of `gguf` out to all of `nodes` nodes.
    ///
    /// # Errors
    ///
    /// As for [`with_holders`](Self::with_holders).
    pub fn new(gguf: &Gguf<'_>, config: &Config, nodes: usize) -> Result<Self> {
        Self::with_holders(gguf, config, nodes, 0..nodes)
    }

    /// Deals the tensors of `gguf` out to `holders`, which are at least one of `nodes` nodes.
    ///
    /// # Errors
    ///
    /// Where the file lacks a tensor of a model like `config`, or one takes more than an address
    /// space.
    pub fn with_holders(
        gguf: &Gguf<'_>,
        config: &Config,
        nodes: usize,
        holders: Range<usize>,
    ) -> Result<Self> {
        assert!(!holders.is_empty() && holders.end <= nodes, "somebody holds the weights");
        let (bytes, floats) = (vec![0; nodes], vec![0; nodes]);
        let mut plan = Self { tensors: Vec::new(), holders, bytes, floats };
        for parameter in config.parameters() {
            let tensor = gguf
                .tensor(&parameter.name)
                .ok_or_else(|| malformed(&parameter.name, "is missing"))?;
            let tensor_type = tensor.tensor_type();
            let pieces = match parameter.shape {
                Shape::Matrix { rows, columns } => {
                    let too_large =
                        || malformed(&parameter.name, "is larger than an address space");
                    plan.place_matrix(tensor_type, rows, columns).ok_or_else(too_large)?
                }
                Shape::Vector(len) => plan.place_vector(len),
            };
            let (name, shape, file) = (parameter.name, parameter.shape, tensor.range());
            plan.tensors.push(Placed { name, tensor_type, shape, file, pieces });
        }
        Ok(plan)
    }

    /// The tensors, in the order of the computation.
    pub fn tensors(&self) -> &[Placed] {
        &self.tensors
    }

    /// The tensor called `name`.
    pub fn tensor(&self, name: &str) -> Option<&Placed> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    /// Bytes of packed matrices in the heap of `node`.
    pub fn bytes(&self, node: usize) -> usize {
        self.bytes[node]
    }

    /// Floats of vectors in the heap of `node`.
    pub fn floats(&self, node: usize) -> usize {
        self.floats[node]
    }

    /// All bytes of weights in the heap of `node`.
    pub fn weight_bytes(&self, node: usize) -> usize {
        self.bytes[node] + self.floats[node] * size_of::<f32>()
    }

    fn place_matrix(&mut self, t: TensorType, rows: usize, columns: usize) -> Option<Vec<Piece>> {
        let (first, holders) = (self.holders.start, self.holders.len());
        let mut pieces = Vec::new();
        for (node, rows) in (0..holders).map(|nth| (first + nth, share(rows, nth, holders))) {
            if rows.is_empty() {
                continue;
            }
            let start = self.bytes[node].checked_next_multiple_of(ALIGN)?;
            let end = start.checked_add(layout::packed_bytes(t, rows.len(), columns)?)?;
            self.bytes[node] = end;
            pieces.push(Piece { node, rows, place: start..end });
        }
        Some(pieces)
    }

    fn place_vector(&mut self, len: usize) -> Vec<Piece> {
        let node = self.holders.start + self.tensors.len() % self.holders.len();
        let start = self.floats[node];
        self.floats[node] += len;
        vec![Piece { node, rows: 0..len, place: start..start + len }]
    }
}

/// The rows of `rows` that go to the `nth` of `holders`: whole groups, but for the last.
fn share(rows: usize, nth: usize, holders: usize) -> Range<usize> {
    let groups = rows.div_ceil(GROUP);
    let first = |nth: usize| (groups * nth / holders * GROUP).min(rows);
    first(nth)..first(nth + 1)
}

fn malformed(name: &str, reason: &str) -> Error {
    Error::Malformed { field: format!("tensor {name:?}"), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_whole_groups_and_cover_all_rows() {
        for rows in [1, 15, 16, 17, 100, 323, 1024] {
            for nodes in 1..=9 {
                let mut next = 0;
                for share in (0..nodes).map(|node| share(rows, node, nodes)) {
                    assert_eq!(share.start, next);
                    assert!(share.start % GROUP == 0 || share.is_empty());
                    next = share.end;
                }
                assert_eq!(next, rows);
            }
        }
    }
}
