//! AVX2 with FMA and F16C: a plane is two registers.

use std::arch::x86_64::*;

use crate::{
    kernels::simd::{Job, Simd, intrinsics},
    layout::{GROUP, PLANE},
};

/// The proof that the processor has AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

/// The expression for each of the two registers.
macro_rules! both {
    (|$i:ident| $expression:expr) => {
        [
            {
                const $i: usize = 0;
                $expression
            },
            {
                const $i: usize = 1;
                $expression
            },
        ]
    };
}

impl Simd for Avx2 {
    const NAME: &str = "avx2";

    type Bytes = [__m256i; 2];
    type Ints = [__m256i; 2];
    type Floats = [__m256; 2];

    fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        found.then_some(Self(()))
    }

    intrinsics! { "avx2,fma,f16c":
        fn bytes(plane: &[u8; PLANE]) -> [__m256i; 2] {
            let halves = plane.as_chunks::<32>().0;
            // SAFETY: the reference is to 32 bytes.
            both!(|I| unsafe { _mm256_loadu_si256(halves[I].as_ptr().cast()) })
        }
        fn low_nibbles(plane: [__m256i; 2]) -> [__m256i; 2] {
            both!(|I| _mm256_and_si256(plane[I], _mm256_set1_epi8(15)))
        }
        fn high_nibbles(plane: [__m256i; 2]) -> [__m256i; 2] {
            both!(|I| _mm256_and_si256(_mm256_srli_epi16::<4>(plane[I]), _mm256_set1_epi8(15)))
        }
        fn shift(plane: [__m256i; 2], left: i8) -> [__m256i; 2] {
            if left < 0 {
                both!(|I| _mm256_srl_epi16(plane[I], _mm_cvtsi32_si128(i32::from(-left))))
            } else {
                both!(|I| _mm256_sll_epi16(plane[I], _mm_cvtsi32_si128(i32::from(left))))
            }
        }
        fn join(low: [__m256i; 2], high: [__m256i; 2], mask: u8) -> [__m256i; 2] {
            let mask = _mm256_set1_epi8(mask.cast_signed());
            both!(|I| _mm256_or_si256(low[I], _mm256_and_si256(high[I], mask)))
        }
        fn ints(value: i32) -> [__m256i; 2] {
            [_mm256_set1_epi32(value); 2]
        }
        fn add_ints(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
            both!(|I| _mm256_add_epi32(a[I], b[I]))
        }
        fn dot(sums: [__m256i; 2], plane: [__m256i; 2], x: [i8; 4]) -> [__m256i; 2] {
            let x = _mm256_set1_epi32(i32::from_le_bytes(x.map(i8::cast_unsigned)));
            both!(|I| {
                // Two products of a byte below 128 and one of at most 127 fit 16 bits.
                let pairs = _mm256_maddubs_epi16(plane[I], x);
                _mm256_add_epi32(sums[I], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
            })
        }
        fn start_bytes(_minus_sum: i32) -> [__m256i; 2] {
            [_mm256_setzero_si256(); 2]
        }
        fn dot_bytes(sums: [__m256i; 2], plane: [__m256i; 2], x: [i8; 4]) -> [__m256i; 2] {
            let x = _mm256_set1_epi32(i32::from_le_bytes(x.map(i8::cast_unsigned)));
            both!(|I| {
                // Bytes up to 255 would saturate 16 bits; magnitudes up to 128 do not.
                let signed = _mm256_xor_si256(plane[I], _mm256_set1_epi8(-128));
                let x = _mm256_sign_epi8(x, signed);
                let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(signed), x);
                _mm256_add_epi32(sums[I], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
            })
        }
        fn floats(value: f32) -> [__m256; 2] {
            [_mm256_set1_ps(value); 2]
        }
        fn to_floats(ints: [__m256i; 2]) -> [__m256; 2] {
            both!(|I| _mm256_cvtepi32_ps(ints[I]))
        }
        fn f32s(column: &[u8; 4 * GROUP]) -> [__m256; 2] {
            let halves = column.as_chunks::<32>().0;
            // SAFETY: the reference is to 32 bytes.
            both!(|I| unsafe { _mm256_loadu_ps(halves[I].as_ptr().cast()) })
        }
        fn f16s(column: &[u8; 2 * GROUP]) -> [__m256; 2] {
            let halves = column.as_chunks::<16>().0;
            // SAFETY: the reference is to 16 bytes.
            both!(|I| _mm256_cvtph_ps(unsafe { _mm_loadu_si128(halves[I].as_ptr().cast()) }))
        }
        fn bf16s(column: &[u8; 2 * GROUP]) -> [__m256; 2] {
            let halves = column.as_chunks::<16>().0;
            both!(|I| {
                // SAFETY: the reference is to 16 bytes.
                let half = unsafe { _mm_loadu_si128(halves[I].as_ptr().cast()) };
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(half)))
            })
        }
        fn u8s(column: &[u8; GROUP]) -> [__m256; 2] {
            let halves = column.as_chunks::<8>().0;
            both!(|I| {
                // SAFETY: the reference is to 8 bytes, which is what this reads.
                let half = unsafe { _mm_loadl_epi64(halves[I].as_ptr().cast()) };
                _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(half))
            })
        }
        fn i8s(column: &[u8; GROUP]) -> [__m256; 2] {
            let halves = column.as_chunks::<8>().0;
            both!(|I| {
                // SAFETY: the reference is to 8 bytes, which is what this reads.
                let half = unsafe { _mm_loadl_epi64(halves[I].as_ptr().cast()) };
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(half))
            })
        }
        fn add(a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            both!(|I| _mm256_add_ps(a[I], b[I]))
        }
        fn multiply(a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            both!(|I| _mm256_mul_ps(a[I], b[I]))
        }
        fn multiply_add(a: [__m256; 2], b: [__m256; 2], c: [__m256; 2]) -> [__m256; 2] {
            both!(|I| _mm256_fmadd_ps(a[I], b[I], c[I]))
        }
        fn store(floats: [__m256; 2], rows: &mut [f32; GROUP]) -> () {
            let halves = rows.as_chunks_mut::<8>().0;
            both!(|I| {
                // SAFETY: the reference is to 8 floats.
                unsafe { _mm256_storeu_ps(halves[I].as_mut_ptr(), floats[I]) }
            });
        }
    }

    #[inline(always)]
    fn run<J: Job>(self, job: J) {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn compiled<J: Job>(simd: Avx2, job: J) {
            job.run(simd);
        }
        // SAFETY: `self` exists, so that the processor has these features.
        unsafe { compiled(self, job) }
    }
}
