//! A weight matrix whose rows may live in several heaps.

use crate::{layout, tensor_type::TensorType};

/// Consecutive rows of a matrix, packed (see [`layout`]), in one node's heap.
#[derive(Clone, Copy, Debug)]
pub struct Shard<'a> {
    /// The first row; a multiple of [`layout::GROUP`].
    pub first_row: usize,
    /// Rows here, without the padding of the last group.
    pub rows: usize,
    /// The packed rows: `layout::packed_bytes(tensor_type, rows, columns)` bytes.
    pub bytes: &'a [u8],
}

/// A matrix of `rows` × `columns`, one output a row, in shards that follow each other.
#[derive(Clone, Debug)]
pub struct Matrix<'a> {
    tensor_type: TensorType,
    rows: usize,
    columns: usize,
    shards: Vec<Shard<'a>>,
}

impl<'a> Matrix<'a> {
    /// Joins `shards`, which must cover all rows in order, into one matrix.
    ///
    /// # Panics
    ///
    /// Where a shard is not where the one before it ends, has another size than its rows take, or
    /// begins inside a group. The layout was checked when the model was loaded, so that this is a
    /// broken invariant.
    pub fn new(tensor_type: TensorType, columns: usize, shards: Vec<Shard<'a>>) -> Self {
        let mut rows = 0;
        for shard in &shards {
            assert_eq!(shard.first_row, rows, "shards follow each other");
            assert_eq!(rows % layout::GROUP, 0, "a shard begins with a group");
            let bytes = layout::packed_bytes(tensor_type, shard.rows, columns);
            assert_eq!(Some(shard.bytes.len()), bytes, "a shard is as long as its rows");
            rows += shard.rows;
        }
        Self { tensor_type, rows, columns, shards }
    }

    /// How the elements are stored.
    pub fn tensor_type(&self) -> TensorType {
        self.tensor_type
    }

    /// The length of an output vector.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The length of an input vector.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The shards, in the order of their rows.
    pub fn shards(&self) -> &[Shard<'a>] {
        &self.shards
    }
}
