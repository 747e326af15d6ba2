//! How packed weights lie in memory: rows interleaved, [`GROUP`] at a time.

use crate::tensor_type::TensorType;

/// Rows interleaved with each other; shards are cut at multiples of it.
pub const GROUP: usize = 16;

/// Bytes that `rows` × `columns` elements take when packed; the last group is padded with zero
/// rows. `None` where `columns` is not a whole number of blocks, or the product overflows.
pub fn packed_bytes(tensor_type: TensorType, rows: usize, columns: usize) -> Option<usize> {
    tensor_type.row_bytes(columns)?.checked_mul(rows.checked_next_multiple_of(GROUP)?)
}
