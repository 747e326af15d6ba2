//! Vectors of x86-64 processors.

mod avx2;
mod avx512;

use super::{Kernels, simd};

/// The kernels that this processor can run, the fastest last.
pub(super) fn available() -> impl Iterator<Item = Kernels> {
    let avx2 = simd::kernels::<avx2::Avx2>();
    let avx512 = simd::kernels::<avx512::Avx512>();
    avx2.into_iter().chain(avx512)
}
