//! AVX-512 with VNNI: a plane is one register.

use std::arch::x86_64::*;

use crate::{
    kernels::simd::{Job, Simd, intrinsics},
    layout::{GROUP, PLANE},
};

/// The proof that the processor has AVX-512 F, BW and VNNI.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

impl Simd for Avx512 {
    const NAME: &str = "avx512";

    type Bytes = __m512i;
    type Ints = __m512i;
    type Floats = __m512;

    fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vnni");
        found.then_some(Self(()))
    }

    intrinsics! { "avx512f,avx512bw,avx512vnni":
        fn bytes(plane: &[u8; PLANE]) -> __m512i {
            // SAFETY: the reference is to 64 bytes.
            unsafe { _mm512_loadu_si512(plane.as_ptr().cast()) }
        }
        fn low_nibbles(plane: __m512i) -> __m512i {
            _mm512_and_si512(plane, _mm512_set1_epi8(15))
        }
        fn high_nibbles(plane: __m512i) -> __m512i {
            _mm512_and_si512(_mm512_srli_epi16::<4>(plane), _mm512_set1_epi8(15))
        }
        fn shift(plane: __m512i, left: i8) -> __m512i {
            if left < 0 {
                _mm512_srl_epi16(plane, _mm_cvtsi32_si128(i32::from(-left)))
            } else {
                _mm512_sll_epi16(plane, _mm_cvtsi32_si128(i32::from(left)))
            }
        }
        fn join(low: __m512i, high: __m512i, mask: u8) -> __m512i {
            let mask = _mm512_set1_epi8(mask.cast_signed());
            // Bit abc of the table is a | b & c.
            _mm512_ternarylogic_epi32::<0b1111_1000>(low, high, mask)
        }
        fn ints(value: i32) -> __m512i {
            _mm512_set1_epi32(value)
        }
        fn add_ints(a: __m512i, b: __m512i) -> __m512i {
            _mm512_add_epi32(a, b)
        }
        fn dot(sums: __m512i, plane: __m512i, x: [i8; 4]) -> __m512i {
            let x = i32::from_le_bytes(x.map(i8::cast_unsigned));
            _mm512_dpbusd_epi32(sums, plane, _mm512_set1_epi32(x))
        }
        fn start_bytes(minus_sum: i32) -> __m512i {
            _mm512_set1_epi32(128 * minus_sum)
        }
        fn dot_bytes(sums: __m512i, plane: __m512i, x: [i8; 4]) -> __m512i {
            let x = i32::from_le_bytes(x.map(i8::cast_unsigned));
            _mm512_dpbusd_epi32(sums, plane, _mm512_set1_epi32(x))
        }
        fn floats(value: f32) -> __m512 {
            _mm512_set1_ps(value)
        }
        fn to_floats(ints: __m512i) -> __m512 {
            _mm512_cvtepi32_ps(ints)
        }
        fn f32s(column: &[u8; 4 * GROUP]) -> __m512 {
            // SAFETY: the reference is to 64 bytes.
            unsafe { _mm512_loadu_ps(column.as_ptr().cast()) }
        }
        fn f16s(column: &[u8; 2 * GROUP]) -> __m512 {
            // SAFETY: the reference is to 32 bytes.
            _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(column.as_ptr().cast()) })
        }
        fn bf16s(column: &[u8; 2 * GROUP]) -> __m512 {
            // SAFETY: the reference is to 32 bytes.
            let halves = unsafe { _mm256_loadu_si256(column.as_ptr().cast()) };
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves)))
        }
        fn u8s(column: &[u8; GROUP]) -> __m512 {
            // SAFETY: the reference is to 16 bytes.
            let bytes = unsafe { _mm_loadu_si128(column.as_ptr().cast()) };
            _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes))
        }
        fn i8s(column: &[u8; GROUP]) -> __m512 {
            // SAFETY: the reference is to 16 bytes.
            let bytes = unsafe { _mm_loadu_si128(column.as_ptr().cast()) };
            _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))
        }
        fn add(a: __m512, b: __m512) -> __m512 {
            _mm512_add_ps(a, b)
        }
        fn multiply(a: __m512, b: __m512) -> __m512 {
            _mm512_mul_ps(a, b)
        }
        fn multiply_add(a: __m512, b: __m512, c: __m512) -> __m512 {
            _mm512_fmadd_ps(a, b, c)
        }
        fn store(floats: __m512, rows: &mut [f32; GROUP]) -> () {
            // SAFETY: the reference is to 16 floats.
            unsafe { _mm512_storeu_ps(rows.as_mut_ptr(), floats) }
        }
    }

    #[inline(always)]
    fn run<J: Job>(self, job: J) {
        #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
        fn compiled<J: Job>(simd: Avx512, job: J) {
            job.run(simd);
        }
        // SAFETY: `self` exists, so that the processor has these features.
        unsafe { compiled(self, job) }
    }
}
