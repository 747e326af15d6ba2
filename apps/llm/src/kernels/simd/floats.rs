//! Unquantized types: a column of 16 rows at a time.

use std::marker::PhantomData;

use super::{Kernel, Simd};
use crate::{kernels::Activations, layout::GROUP};

/// How a column of 16 rows is read.
pub(super) trait Column {
    /// Bytes of an element.
    const BYTES: usize;

    fn load<S: Simd>(simd: S, column: &[u8]) -> S::Floats;
}

pub(super) struct F32;
pub(super) struct F16;
pub(super) struct BF16;

impl Column for F32 {
    const BYTES: usize = 4;

    #[inline(always)]
    fn load<S: Simd>(simd: S, column: &[u8]) -> S::Floats {
        simd.f32s(column.try_into().expect("a column of 16 floats"))
    }
}

impl Column for F16 {
    const BYTES: usize = 2;

    #[inline(always)]
    fn load<S: Simd>(simd: S, column: &[u8]) -> S::Floats {
        simd.f16s(column.try_into().expect("a column of 16 halves"))
    }
}

impl Column for BF16 {
    const BYTES: usize = 2;

    #[inline(always)]
    fn load<S: Simd>(simd: S, column: &[u8]) -> S::Floats {
        simd.bf16s(column.try_into().expect("a column of 16 halves"))
    }
}

/// Sums that a row is added up in, so that an addition need not wait for the one before it.
pub(crate) const SUMS: usize = 4;

/// The kernel of a type of column.
pub(super) struct Columns<C>(PhantomData<C>);

impl<C: Column> Kernel for Columns<C> {
    /// Column `c` goes to sum `c % 4` of its row.
    #[inline(always)]
    fn tile<S: Simd, const T: usize>(
        simd: S,
        group: &[u8],
        x: &Activations,
        token: usize,
    ) -> [S::Floats; T] {
        let x: [&[f32]; T] = std::array::from_fn(|t| x.values(token + t));
        let mut sums = [[simd.floats(0.0); SUMS]; T];
        let mut steps = group.chunks_exact(SUMS * GROUP * C::BYTES);
        let mut first = 0;
        for step in &mut steps {
            for (lane, column) in step.chunks_exact(GROUP * C::BYTES).enumerate() {
                add_column(simd, C::load(simd, column), x, (first, lane), &mut sums);
            }
            first += SUMS;
        }
        for (lane, column) in steps.remainder().chunks_exact(GROUP * C::BYTES).enumerate() {
            add_column(simd, C::load(simd, column), x, (first, lane), &mut sums);
        }
        let mut totals = [simd.floats(0.0); T];
        for (total, [a, b, c, d]) in totals.iter_mut().zip(sums) {
            *total = simd.add(simd.add(a, b), simd.add(c, d));
        }
        totals
    }
}

/// Adds column `first + lane` to sum `lane` of each token.
#[inline(always)]
fn add_column<S: Simd, const T: usize>(
    simd: S,
    column: S::Floats,
    x: [&[f32]; T],
    (first, lane): (usize, usize),
    sums: &mut [[S::Floats; SUMS]; T],
) {
    for (x, sums) in x.iter().zip(sums) {
        sums[lane] = simd.multiply_add(column, simd.floats(x[first + lane]), sums[lane]);
    }
}
