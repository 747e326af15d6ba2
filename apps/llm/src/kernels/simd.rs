//! The kernels, written once over the vectors of any processor.
//!
//! A vector here is as wide as a group: [`Simd::Floats`] holds one number of each of 16 rows,
//! whether that is one register or four. A row's sum therefore stays in its lane, and is added up
//! in the same order on every processor, for any number of threads, shards or tokens: results are
//! bitwise the same, and the same as those of [`super::reference`].
//!
//! There is no prefetching: asking for every line ahead was slower than leaving it to the
//! processor.

mod floats;
mod formats;

use std::marker::PhantomData;

use self::{floats::Columns, formats::Blocks};
use crate::{
    kernels::{Activations, Kernels, Piece, Rows},
    layout::{GROUP, PLANE},
    tensor_type::TensorType,
};

/// A set of vector instructions; a value is the proof that the processor has it.
///
/// All methods are inlined into [`run`](Self::run), which is compiled for those instructions.
pub(super) trait Simd: Copy {
    /// The name of the kernels.
    const NAME: &str;

    /// A plane: four bytes of each row.
    type Bytes: Copy;
    /// An integer of each row.
    type Ints: Copy;
    /// A float of each row.
    type Floats: Copy;

    /// The proof, if it holds.
    fn detect() -> Option<Self>;
    /// Runs `job` compiled for these instructions.
    fn run<J: Job>(self, job: J);

    fn bytes(self, plane: &[u8; PLANE]) -> Self::Bytes;
    fn low_nibbles(self, plane: Self::Bytes) -> Self::Bytes;
    fn high_nibbles(self, plane: Self::Bytes) -> Self::Bytes;
    /// Shifts each byte left (right where negative); what enters a byte is undefined.
    fn shift(self, plane: Self::Bytes, left: i8) -> Self::Bytes;
    /// `low | high & mask`.
    fn join(self, low: Self::Bytes, high: Self::Bytes, mask: u8) -> Self::Bytes;

    fn ints(self, value: i32) -> Self::Ints;
    fn add_ints(self, a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// Adds to each row the product of its four bytes, below 128, with `x`.
    fn dot(self, sums: Self::Ints, plane: Self::Bytes, x: [i8; 4]) -> Self::Ints;
    /// Where sums of `dot_bytes` begin, given minus the sum of the `x` to come.
    fn start_bytes(self, minus_sum: i32) -> Self::Ints;
    /// As `dot`, for bytes that have 128 added.
    fn dot_bytes(self, sums: Self::Ints, plane: Self::Bytes, x: [i8; 4]) -> Self::Ints;

    fn floats(self, value: f32) -> Self::Floats;
    fn to_floats(self, ints: Self::Ints) -> Self::Floats;
    fn f32s(self, column: &[u8; 4 * GROUP]) -> Self::Floats;
    fn f16s(self, column: &[u8; 2 * GROUP]) -> Self::Floats;
    fn bf16s(self, column: &[u8; 2 * GROUP]) -> Self::Floats;
    fn u8s(self, column: &[u8; GROUP]) -> Self::Floats;
    fn i8s(self, column: &[u8; GROUP]) -> Self::Floats;
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    fn multiply(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b + c`, rounded once.
    fn multiply_add(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    fn store(self, floats: Self::Floats, rows: &mut [f32; GROUP]);
}

/// Methods of [`Simd`], compiled for `features`, so that their bodies may use those instructions.
macro_rules! intrinsics {
    ($features:literal:
        $(fn $name:ident($($argument:ident: $type:ty),*) -> $output:ty $body:block)*) => {
        $(
            #[inline(always)]
            fn $name(self, $($argument: $type),*) -> $output {
                #[target_feature(enable = $features)]
                #[inline]
                fn compiled($($argument: $type),*) -> $output $body
                // SAFETY: `self` exists, so that the processor has these features.
                unsafe { compiled($($argument),*) }
            }
        )*
    };
}
pub(super) use intrinsics;

/// Something to be compiled for a set of vector instructions.
pub(super) trait Job {
    /// Does it.
    fn run<S: Simd>(self, simd: S);
}

/// The kernels for a set of vector instructions, if the processor has it.
pub(super) fn kernels<S: Simd>() -> Option<Kernels> {
    S::detect().map(|_| Kernels { name: S::NAME, multiply: multiply::<S> })
}

/// The proof that there was when the kernels were chosen.
fn proof<S: Simd>() -> S {
    S::detect().expect("a processor keeps its instructions")
}

/// Multiplies the groups of `piece` with every vector of `x`.
fn multiply<S: Simd>(piece: &Piece<'_>, x: &Activations, rows: &mut Rows<'_>) {
    let simd = proof::<S>();
    match piece.tensor_type {
        TensorType::F32 => simd.run(Groups::<Columns<floats::F32>>::new(piece, x, rows)),
        TensorType::F16 => simd.run(Groups::<Columns<floats::F16>>::new(piece, x, rows)),
        TensorType::BF16 => simd.run(Groups::<Columns<floats::BF16>>::new(piece, x, rows)),
        TensorType::Q8_0 => simd.run(Groups::<Blocks<formats::Q8_0>>::new(piece, x, rows)),
        TensorType::Q4_0 => simd.run(Groups::<Blocks<formats::Q4_0>>::new(piece, x, rows)),
        TensorType::Q5_0 => simd.run(Groups::<Blocks<formats::Q5_0>>::new(piece, x, rows)),
        TensorType::Q4_K => simd.run(Groups::<Blocks<formats::Q4_K>>::new(piece, x, rows)),
        TensorType::Q5_K => simd.run(Groups::<Blocks<formats::Q5_K>>::new(piece, x, rows)),
        TensorType::Q6_K => simd.run(Groups::<Blocks<formats::Q6_K>>::new(piece, x, rows)),
    }
}

/// How a group of one type is multiplied with `T` tokens at once.
trait Kernel {
    /// The products of all rows of `group` with the `T` vectors from `token` on.
    fn tile<S: Simd, const T: usize>(
        simd: S,
        group: &[u8],
        x: &Activations,
        token: usize,
    ) -> [S::Floats; T];
}

/// All groups of a piece, each with all tokens while it is in the cache.
struct Groups<'a, 'o, K> {
    piece: &'a Piece<'a>,
    x: &'a Activations,
    rows: &'a mut Rows<'o>,
    kernel: PhantomData<K>,
}

impl<'a, 'o, K> Groups<'a, 'o, K> {
    fn new(piece: &'a Piece<'a>, x: &'a Activations, rows: &'a mut Rows<'o>) -> Self {
        Self { piece, x, rows, kernel: PhantomData }
    }
}

impl<K: Kernel> Job for Groups<'_, '_, K> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let tokens = self.x.tokens();
        for (index, group) in self.piece.groups().enumerate() {
            let mut token = 0;
            while token + TILE <= tokens {
                let sums = K::tile::<S, TILE>(simd, group, self.x, token);
                store(simd, self.rows, index, token, sums);
                token += TILE;
            }
            while token < tokens {
                let sums = K::tile::<S, 1>(simd, group, self.x, token);
                store(simd, self.rows, index, token, sums);
                token += 1;
            }
        }
    }
}

/// Tokens multiplied together, so that a weight is loaded and unpacked once for all of them.
const TILE: usize = 4;

#[inline(always)]
fn store<S: Simd, const T: usize>(
    simd: S,
    rows: &mut Rows<'_>,
    group: usize,
    token: usize,
    sums: [S::Floats; T],
) {
    for (index, sums) in sums.into_iter().enumerate() {
        let mut values = [0.0; GROUP];
        simd.store(sums, &mut values);
        rows.write(token + index, group * GROUP, &values);
    }
}
