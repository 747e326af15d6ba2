//! How packed weights lie in memory: rows interleaved, [`GROUP`] at a time.
//!
//! A group is 16 rows; a matrix is its groups in order, the last one padded with zero rows. A group
//! is its blocks in the order of the columns, each of as many columns as a block of the file has
//! ([`TensorType::block_len`]). All kernels, on all processors, read this one layout.
//!
//! The unit inside a block is a **plane**: 64 bytes, four for each row, which is one AVX-512
//! register, two of AVX2, four of NEON. An instruction that multiplies four bytes and adds them up
//! (`vpdpbusd`, `sdot`) thus advances 16 rows by four columns, and no sum crosses a lane.
//!
//! ```text
//!            row 0       row 1             row 15
//! bytes    c c c c     c c c c     …     c c c c        columns 4q .. 4q + 3
//! nibbles  one byte holds column c (low) and column c + 16 (high), both of 32 columns
//! bits     bit q of byte i belongs to column 4q + i of 32 columns
//! pairs    bits 2q, 2q + 1 of byte i belong to column 4q + i of 16 columns
//! ```
//!
//! | type | a block, in order |
//! |---|---|
//! | F32, F16, BF16 | 16 elements: one column |
//! | Q8_0 | scales `[f16; 16]`, 8 planes of bytes, 128 added to each |
//! | Q4_0 | scales `[f16; 16]`, 4 planes of nibbles |
//! | Q5_0 | scales `[f16; 16]`, 1 plane of bits, 4 planes of nibbles |
//! | Q4_K | head, 8 × 4 planes of nibbles |
//! | Q5_K | head, 8 × (1 plane of bits, 4 planes of nibbles) |
//! | Q6_K | scales `[f16; 16]`, factors `[[i8; 16]; 16]`, 8 × (2 planes of pairs, 4 of nibbles) |
//!
//! The head of Q4_K and Q5_K is scales and minima, `[f16; 16]` each, then the factors that the
//! sub-blocks multiply them with, `[[u8; 16]; 8]` each.
//!
//! Only the K types whose factors have six bits in the file grow, by 2.8 % and 2.3 %: a whole byte
//! is what a kernel can load.

mod blocks;
mod k_blocks;

use crate::tensor_type::TensorType;

/// Rows interleaved with each other; shards are cut at multiples of it.
pub const GROUP: usize = 16;

/// Bytes of a plane: four for each row of a group.
pub(crate) const PLANE: usize = 4 * GROUP;

/// Columns that share a scale and are quantized together in the activations.
pub(crate) const PART: usize = 32;

/// Bytes that `rows` × `columns` elements take when packed; the last group is padded with zero
/// rows. `None` where `columns` is not a whole number of blocks, or the product overflows.
pub fn packed_bytes(tensor_type: TensorType, rows: usize, columns: usize) -> Option<usize> {
    group_bytes(tensor_type, columns)?.checked_mul(rows.div_ceil(GROUP))
}

/// Bytes of one packed group.
pub(crate) fn group_bytes(tensor_type: TensorType, columns: usize) -> Option<usize> {
    tensor_type.row_bytes(columns)?;
    (columns / tensor_type.block_len()).checked_mul(block_bytes(tensor_type))
}

/// Bytes of one block of a group.
fn block_bytes(tensor_type: TensorType) -> usize {
    match tensor_type {
        TensorType::Q4_K => Q4_K_BYTES,
        TensorType::Q5_K => Q5_K_BYTES,
        _ => tensor_type.block_bytes() * GROUP,
    }
}

/// Bytes of a packed block, by type.
pub(crate) const Q8_0_BYTES: usize = 2 * GROUP + 8 * PLANE;
pub(crate) const Q4_0_BYTES: usize = 2 * GROUP + 4 * PLANE;
pub(crate) const Q5_0_BYTES: usize = 2 * GROUP + 5 * PLANE;
pub(crate) const Q4_K_BYTES: usize = 4 * GROUP + 2 * 8 * GROUP + 8 * 4 * PLANE;
pub(crate) const Q5_K_BYTES: usize = 4 * GROUP + 2 * 8 * GROUP + 8 * 5 * PLANE;
pub(crate) const Q6_K_BYTES: usize = 2 * GROUP + 16 * GROUP + 8 * 6 * PLANE;

/// Packs `rows` rows as they are in the file into `target`.
///
/// # Panics
///
/// Where `source` or `target` has another size than that many rows take; the sizes were checked
/// against the file when its header was read.
pub fn pack(
    tensor_type: TensorType,
    source: &[u8],
    rows: usize,
    columns: usize,
    target: &mut [u8],
) {
    let row_bytes = tensor_type.row_bytes(columns).expect("a row is a whole number of blocks");
    assert_eq!(Some(source.len()), row_bytes.checked_mul(rows), "the source is whole rows");
    assert_eq!(
        Some(target.len()),
        packed_bytes(tensor_type, rows, columns),
        "the target is as long as its rows"
    );
    let blocks = Blocks { rows, per_row: columns / tensor_type.block_len() };
    match tensor_type {
        TensorType::F32 => blocks.pack(source, target, blocks::put_float::<4, 64>),
        TensorType::F16 | TensorType::BF16 => {
            blocks.pack(source, target, blocks::put_float::<2, 32>);
        }
        TensorType::Q8_0 => blocks.pack(source, target, blocks::put_q8_0),
        TensorType::Q4_0 => blocks.pack(source, target, blocks::put_q4_0),
        TensorType::Q5_0 => blocks.pack(source, target, blocks::put_q5_0),
        TensorType::Q4_K => blocks.pack(source, target, k_blocks::put_q4_k),
        TensorType::Q5_K => blocks.pack(source, target, k_blocks::put_q5_k),
        TensorType::Q6_K => blocks.pack(source, target, k_blocks::put_q6_k),
    }
}

/// The blocks of some rows.
struct Blocks {
    rows: usize,
    per_row: usize,
}

impl Blocks {
    /// Calls `put(row, file block, packed block)` for each row of each packed block.
    fn pack<const SOURCE: usize, const TARGET: usize>(
        &self,
        source: &[u8],
        target: &mut [u8],
        put: impl Fn(usize, &[u8; SOURCE], &mut [u8; TARGET]),
    ) {
        let (source, _) = source.as_chunks::<SOURCE>();
        let (target, _) = target.as_chunks_mut::<TARGET>();
        // Zero bytes have a zero scale, so that they are zeros in every type.
        let blank = [0; SOURCE];
        for (index, packed) in target.iter_mut().enumerate() {
            let (group, column) = (index / self.per_row, index % self.per_row);
            for row in 0..GROUP {
                let file_row = group * GROUP + row;
                let there = file_row < self.rows;
                let block = if there { &source[file_row * self.per_row + column] } else { &blank };
                put(row, block, packed);
            }
        }
    }
}

/// 32 columns of one row: the value of column `c` is
/// `(quants[c] - offset) * scales[c / 16] - minimum`.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) quants: [u8; PART],
    pub(crate) offset: u8,
    pub(crate) scales: [f32; 2],
    pub(crate) minimum: f32,
}

impl Part {
    /// Columns `32 * index ..` of row `row` of a packed group of a quantized type.
    pub(crate) fn new(tensor_type: TensorType, group: &[u8], row: usize, index: usize) -> Self {
        let parts = tensor_type.block_len() / PART;
        let block = &group[index / parts * block_bytes(tensor_type)..];
        let part = index % parts;
        match tensor_type {
            TensorType::Q8_0 => blocks::q8_0(block, row),
            TensorType::Q4_0 => blocks::q4_0(block, row),
            TensorType::Q5_0 => blocks::q5_0(block, row),
            TensorType::Q4_K => k_blocks::q4_k(block, row, part),
            TensorType::Q5_K => k_blocks::q5_k(block, row, part),
            TensorType::Q6_K => k_blocks::q6_k(block, row, part),
            TensorType::F32 | TensorType::F16 | TensorType::BF16 => {
                unreachable!("floats have no parts")
            }
        }
    }

    /// The columns' values.
    fn values(&self) -> [f32; PART] {
        std::array::from_fn(|c| {
            let quant = i16::from(self.quants[c]) - i16::from(self.offset);
            f32::from(quant) * self.scales[c / 16] - self.minimum
        })
    }
}

/// The element in column `column` of row `row` of a packed group of an unquantized type.
pub(crate) fn float(tensor_type: TensorType, group: &[u8], row: usize, column: usize) -> f32 {
    let index = column * GROUP + row;
    match tensor_type {
        TensorType::F32 => f32::from_le_bytes(group.as_chunks().0[index]),
        TensorType::F16 => half::f16::from_le_bytes(group.as_chunks().0[index]).to_f32(),
        TensorType::BF16 => half::bf16::from_le_bytes(group.as_chunks().0[index]).to_f32(),
        _ => unreachable!("quantized elements come in parts"),
    }
}

/// Unpacks one row of a packed group.
pub(crate) fn unpack_row(tensor_type: TensorType, group: &[u8], row: usize, out: &mut [f32]) {
    if tensor_type.is_float() {
        for (column, value) in out.iter_mut().enumerate() {
            *value = float(tensor_type, group, row, column);
        }
    } else {
        for (index, values) in out.as_chunks_mut().0.iter_mut().enumerate() {
            *values = Part::new(tensor_type, group, row, index).values();
        }
    }
}

#[cfg(test)]
mod tests;
