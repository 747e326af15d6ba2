//! The portable kernels: what a product is, a row at a time.

use super::{Activations, Piece, Quantized, Rows};
use crate::{
    layout::{self, GROUP, Part},
    tensor_type::TensorType,
};

/// Multiplies the groups of `piece` with every vector of `x`.
pub(super) fn multiply(piece: &Piece<'_>, x: &Activations, rows: &mut Rows<'_>) {
    for (index, group) in piece.groups().enumerate() {
        let first = index * GROUP;
        for row in 0..GROUP.min(piece.rows.len() - first) {
            for token in 0..x.tokens() {
                let sum = if piece.tensor_type.is_float() {
                    float_row(piece, group, row, x.values(token))
                } else {
                    quantized_row(
                        piece,
                        group,
                        row,
                        x.quantized(token, piece.tensor_type.block_len()),
                    )
                };
                rows.write(token, first + row, &[sum]);
            }
        }
    }
}

/// Column `c` goes to sum `c % 4`, so that vectors need not wait for the addition before.
fn float_row(piece: &Piece<'_>, group: &[u8], row: usize, x: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 4];
    for (column, x) in x.iter().enumerate() {
        let weight = layout::float(piece.tensor_type, group, row, column);
        sums[column % 4] = weight.mul_add(*x, sums[column % 4]);
    }
    let [a, b, c, d] = sums;
    (a + b) + (c + d)
}

/// Columns that share a scale are added up as integers, which is exact; then comes the scale.
fn quantized_row(piece: &Piece<'_>, group: &[u8], row: usize, x: &[Quantized]) -> f32 {
    x.iter().enumerate().fold(0.0, |sum, (index, x)| {
        let part = Part::new(piece.tensor_type, group, row, index);
        let [first, last] = [0, 16].map(|half| dot(&part, x, half));
        let sum = if piece.tensor_type == TensorType::Q6_K {
            let sum = add_scaled(sum, first, part.scales[0], x);
            add_scaled(sum, last, part.scales[1], x)
        } else {
            add_scaled(sum, first + last, part.scales[0], x)
        };
        if piece.tensor_type.has_minima() { part.minimum.mul_add(x.offset, sum) } else { sum }
    })
}

/// The dot product of 16 columns from `first` on.
fn dot(part: &Part, x: &Quantized, first: usize) -> i32 {
    (first..first + 16)
        .map(|c| {
            let weight = i32::from(part.quants[c]) - i32::from(part.offset);
            weight * i32::from(x.quants[c / 4][c % 4])
        })
        .sum()
}

#[expect(clippy::cast_precision_loss, reason = "sums of 32 products of bytes are below 2^24")]
fn add_scaled(sum: f32, dot: i32, scale: f32, x: &Quantized) -> f32 {
    (dot as f32).mul_add(scale * x.scale, sum)
}
