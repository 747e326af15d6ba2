//! Quantized types: 32 columns of 16 rows at a time, in integers, then scaled.

#![allow(non_camel_case_types, reason = "names are those of ggml")]

use std::marker::PhantomData;

use super::{Kernel, Simd};
use crate::{
    kernels::{Activations, Quantized},
    layout::{self, GROUP, PART, PLANE},
};

/// How a block of 16 rows is multiplied.
pub(super) trait Format {
    /// Bytes of a block.
    const BYTES: usize;
    /// Columns of a block, in units of 32.
    const PARTS: usize;

    /// Adds the products of `block` with the `PARTS` parts of each `x`.
    fn add<S: Simd, const T: usize>(
        simd: S,
        block: &[u8],
        x: [&[Quantized]; T],
        sums: &mut [S::Floats; T],
    );
}

/// The kernel of a type of block.
pub(super) struct Blocks<F>(PhantomData<F>);

impl<F: Format> Kernel for Blocks<F> {
    #[inline(always)]
    fn tile<S: Simd, const T: usize>(
        simd: S,
        group: &[u8],
        x: &Activations,
        token: usize,
    ) -> [S::Floats; T] {
        let x: [&[Quantized]; T] = std::array::from_fn(|t| x.quantized(token + t, F::PARTS * PART));
        let mut sums = [simd.floats(0.0); T];
        for (index, block) in group.chunks_exact(F::BYTES).enumerate() {
            F::add(simd, block, x.map(|x| &x[index * F::PARTS..][..F::PARTS]), &mut sums);
        }
        sums
    }
}

pub(super) struct Q8_0;
pub(super) struct Q4_0;
pub(super) struct Q5_0;
pub(super) struct Q4_K;
pub(super) struct Q5_K;
pub(super) struct Q6_K;

impl Format for Q8_0 {
    const BYTES: usize = layout::Q8_0_BYTES;
    const PARTS: usize = 1;

    #[inline(always)]
    fn add<S: Simd, const T: usize>(
        simd: S,
        block: &[u8],
        x: [&[Quantized]; T],
        sums: &mut [S::Floats; T],
    ) {
        let mut block = Cursor(block);
        let scale = simd.f16s(block.take());
        let x = x.map(|x| &x[0]);
        let mut dots = [[simd.ints(0); 2]; T];
        for t in 0..T {
            dots[t] = [simd.start_bytes(x[t].sums[0]), simd.start_bytes(x[t].sums[1])];
        }
        for q in 0..PART / 4 {
            let (quad, half) = (simd.bytes(block.take()), q / 4);
            for t in 0..T {
                dots[t][half] = simd.dot_bytes(dots[t][half], quad, x[t].quants[q]);
            }
        }
        scale_whole(simd, dots, scale, x, sums);
    }
}

impl Format for Q4_0 {
    const BYTES: usize = layout::Q4_0_BYTES;
    const PARTS: usize = 1;

    #[inline(always)]
    fn add<S: Simd, const T: usize>(
        simd: S,
        block: &[u8],
        x: [&[Quantized]; T],
        sums: &mut [S::Floats; T],
    ) {
        let mut block = Cursor(block);
        let scale = simd.f16s(block.take());
        let x = x.map(|x| &x[0]);
        let dots = dot(simd, x, 8, |q| nibbles(simd, block.plane(q)));
        scale_whole(simd, dots, scale, x, sums);
    }
}

impl Format for Q5_0 {
    const BYTES: usize = layout::Q5_0_BYTES;
    const PARTS: usize = 1;

    #[inline(always)]
    fn add<S: Simd, const T: usize>(
        simd: S,
        block: &[u8],
        x: [&[Quantized]; T],
        sums: &mut [S::Floats; T],
    ) {
        let mut block = Cursor(block);
        let scale = simd.f16s(block.take());
        let x = x.map(|x| &x[0]);
        let bits = simd.bytes(block.take());
        let dots = dot(simd, x, 16, |q| with_bits(simd, nibbles(simd, block.plane(q)), bits, q));
        scale_whole(simd, dots, scale, x, sums);
    }
}

impl Format for Q4_K {
    const BYTES: usize = layout::Q4_K_BYTES;
    const PARTS: usize = 8;

    #[inline(always)]
    fn add<S: Simd, const T: usize>(
        simd: S,
        block: &[u8],
        x: [&[Quantized]; T],
        sums: &mut [S::Floats; T],
    ) {
        let mut block = Cursor(block);
        let scales = KScales::take(simd, &mut block);
        for part in 0..Self::PARTS {
            let x = x.map(|x| &x[part]);
            let planes = Cursor(block.take::<{ 4 * PLANE }>());
            let dots = dot(simd, x, 0, |q| nibbles(simd, planes.plane(q)));
            scale_whole(simd, dots, scales.scale(simd, part), x, sums);
            subtract_minimum(simd, scales.minimum(simd, part), x, sums);
        }
    }
}

impl Format for Q5_K {
    const BYTES: usize = layout::Q5_K_BYTES;
    const PARTS: usize = 8;

    #[inline(always)]
    fn add<S: Simd, const T: usize>(
        simd: S,
        block: &[u8],
        x: [&[Quantized]; T],
        sums: &mut [S::Floats; T],
    ) {
        let mut block = Cursor(block);
        let scales = KScales::take(simd, &mut block);
        for part in 0..Self::PARTS {
            let x = x.map(|x| &x[part]);
            let bits = simd.bytes(block.take());
            let planes = Cursor(block.take::<{ 4 * PLANE }>());
            let dots =
                dot(simd, x, 0, |q| with_bits(simd, nibbles(simd, planes.plane(q)), bits, q));
            scale_whole(simd, dots, scales.scale(simd, part), x, sums);
            subtract_minimum(simd, scales.minimum(simd, part), x, sums);
        }
    }
}

impl Format for Q6_K {
    const BYTES: usize = layout::Q6_K_BYTES;
    const PARTS: usize = 8;

    #[inline(always)]
    fn add<S: Simd, const T: usize>(
        simd: S,
        block: &[u8],
        x: [&[Quantized]; T],
        sums: &mut [S::Floats; T],
    ) {
        let mut block = Cursor(block);
        let scale = simd.f16s(block.take());
        let factors: &[u8; 16 * GROUP] = block.take();
        for (x_part, factors) in (0..Self::PARTS).zip(factors.as_chunks::<{ 2 * GROUP }>().0) {
            let x = x.map(|x| &x[x_part]);
            let pairs = [simd.bytes(block.take()), simd.bytes(block.take())];
            let planes = Cursor(block.take::<{ 4 * PLANE }>());
            let dots =
                dot(simd, x, 32, |q| with_pairs(simd, nibbles(simd, planes.plane(q)), pairs, q));
            let mut factors = Cursor(factors);
            for half in 0..2 {
                let scale = simd.multiply(simd.i8s(factors.take()), scale);
                for t in 0..T {
                    let dots = simd.to_floats(dots[t][half]);
                    let scale = simd.multiply(scale, simd.floats(x[t].scale));
                    sums[t] = simd.multiply_add(dots, scale, sums[t]);
                }
            }
        }
    }
}

/// The rest of a block.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    #[inline(always)]
    fn take<const N: usize>(&mut self) -> &'a [u8; N] {
        let (first, rest) = self.0.split_first_chunk().expect("a block is as long as its parts");
        self.0 = rest;
        first
    }

    #[inline(always)]
    fn plane(&self, index: usize) -> &'a [u8; PLANE] {
        &self.0.as_chunks().0[index]
    }
}

/// The scales and minima of a block of Q4_K or Q5_K.
struct KScales<'a, S: Simd> {
    scale: S::Floats,
    minimum: S::Floats,
    factors: &'a [[u8; GROUP]],
}

impl<'a, S: Simd> KScales<'a, S> {
    #[inline(always)]
    fn take(simd: S, block: &mut Cursor<'a>) -> Self {
        let scale = simd.f16s(block.take());
        let minimum = simd.f16s(block.take());
        let factors = block.take::<{ 16 * GROUP }>().as_chunks().0;
        Self { scale, minimum, factors }
    }

    #[inline(always)]
    fn scale(&self, simd: S, part: usize) -> S::Floats {
        simd.multiply(simd.u8s(&self.factors[part]), self.scale)
    }

    #[inline(always)]
    fn minimum(&self, simd: S, part: usize) -> S::Floats {
        simd.multiply(simd.u8s(&self.factors[8 + part]), self.minimum)
    }
}

/// The quads `q` and `q + 4` of four planes of nibbles, of which `plane` is the `q`-th.
#[inline(always)]
fn nibbles<S: Simd>(simd: S, plane: &[u8; PLANE]) -> [S::Bytes; 2] {
    let plane = simd.bytes(plane);
    [simd.low_nibbles(plane), simd.high_nibbles(plane)]
}

/// Adds the fifth bits to the quads `q` and `q + 4`.
#[inline(always)]
fn with_bits<S: Simd>(simd: S, quads: [S::Bytes; 2], bits: S::Bytes, q: usize) -> [S::Bytes; 2] {
    let q = SHIFTS[q];
    [
        simd.join(quads[0], simd.shift(bits, 4 - q), 0x10),
        simd.join(quads[1], simd.shift(bits, -q), 0x10),
    ]
}

/// Adds the fifth and sixth bits to the quads `q` and `q + 4`.
#[inline(always)]
fn with_pairs<S: Simd>(
    simd: S,
    quads: [S::Bytes; 2],
    pairs: [S::Bytes; 2],
    q: usize,
) -> [S::Bytes; 2] {
    let left = 4 - 2 * SHIFTS[q];
    [
        simd.join(quads[0], simd.shift(pairs[0], left), 0x30),
        simd.join(quads[1], simd.shift(pairs[1], left), 0x30),
    ]
}

/// An index as a shift.
const SHIFTS: [i8; 4] = [0, 1, 2, 3];

/// Dot products of 32 columns, the first and the last 16 apart, of weights that have `offset`
/// added. `quads(q)` gives quads `q` and `q + 4`.
#[inline(always)]
fn dot<S: Simd, const T: usize>(
    simd: S,
    x: [&Quantized; T],
    offset: i32,
    quads: impl Fn(usize) -> [S::Bytes; 2],
) -> [[S::Ints; 2]; T] {
    let mut dots = [[simd.ints(0); 2]; T];
    for t in 0..T {
        dots[t] = [simd.ints(x[t].sums[0] * offset), simd.ints(x[t].sums[1] * offset)];
    }
    for q in 0..PART / 8 {
        let [first, last] = quads(q);
        for t in 0..T {
            dots[t][0] = simd.dot(dots[t][0], first, x[t].quants[q]);
            dots[t][1] = simd.dot(dots[t][1], last, x[t].quants[q + 4]);
        }
    }
    dots
}

/// Adds to `sums` the dot products of 32 columns that have one scale.
#[inline(always)]
fn scale_whole<S: Simd, const T: usize>(
    simd: S,
    dots: [[S::Ints; 2]; T],
    scale: S::Floats,
    x: [&Quantized; T],
    sums: &mut [S::Floats; T],
) {
    for t in 0..T {
        let dots = simd.to_floats(simd.add_ints(dots[t][0], dots[t][1]));
        let scale = simd.multiply(scale, simd.floats(x[t].scale));
        sums[t] = simd.multiply_add(dots, scale, sums[t]);
    }
}

/// Subtracts the products of 32 columns with the weights' minimum.
#[inline(always)]
fn subtract_minimum<S: Simd, const T: usize>(
    simd: S,
    minimum: S::Floats,
    x: [&Quantized; T],
    sums: &mut [S::Floats; T],
) {
    for t in 0..T {
        sums[t] = simd.multiply_add(minimum, simd.floats(x[t].offset), sums[t]);
    }
}
