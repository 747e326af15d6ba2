//! NEON with dot products (ARMv8.4, all of Apple's processors): a plane is four registers.

use std::arch::{aarch64::*, asm, is_aarch64_feature_detected};

use super::{
    Kernels,
    simd::{self, Job, Simd, intrinsics},
};
use crate::layout::{GROUP, PLANE};

/// The kernels that this processor can run.
pub(super) fn available() -> impl Iterator<Item = Kernels> {
    simd::kernels::<Neon>().into_iter()
}

/// The proof that the processor has NEON and dot products.
#[derive(Clone, Copy)]
struct Neon(());

/// The expression for each of the four registers.
macro_rules! each {
    (|$i:ident| $expression:expr) => {
        [
            each!(0, $i, $expression),
            each!(1, $i, $expression),
            each!(2, $i, $expression),
            each!(3, $i, $expression),
        ]
    };
    ($index:literal, $i:ident, $expression:expr) => {{
        const $i: usize = $index;
        $expression
    }};
}

/// Adds to each number of `sums` the products of four signed bytes.
#[target_feature(enable = "neon,dotprod")]
#[inline]
fn sdot(mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // The intrinsic, `vdotq_s32`, is not stable yet.
    // SAFETY: the instruction exists where the feature `dotprod` is enabled, as it is here; it
    // reads and writes the three registers named, and nothing else.
    unsafe {
        asm!(
            "sdot {sums:v}.4s, {a:v}.16b, {b:v}.16b",
            sums = inout(vreg) sums,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

/// Four copies of four bytes.
#[target_feature(enable = "neon")]
#[inline]
fn repeat(x: [i8; 4]) -> int8x16_t {
    vreinterpretq_s8_s32(vdupq_n_s32(i32::from_le_bytes(x.map(i8::cast_unsigned))))
}

/// The sixteen numbers as floats, four a register.
#[target_feature(enable = "neon")]
#[inline]
fn widen(numbers: [int16x8_t; 2]) -> [float32x4_t; 4] {
    [
        vcvtq_f32_s32(vmovl_s16(vget_low_s16(numbers[0]))),
        vcvtq_f32_s32(vmovl_high_s16(numbers[0])),
        vcvtq_f32_s32(vmovl_s16(vget_low_s16(numbers[1]))),
        vcvtq_f32_s32(vmovl_high_s16(numbers[1])),
    ]
}

impl Simd for Neon {
    const NAME: &str = "neon";

    type Bytes = [uint8x16_t; 4];
    type Ints = [int32x4_t; 4];
    type Floats = [float32x4_t; 4];

    fn detect() -> Option<Self> {
        is_aarch64_feature_detected!("dotprod").then_some(Self(()))
    }

    intrinsics! { "neon,dotprod":
        fn bytes(plane: &[u8; PLANE]) -> [uint8x16_t; 4] {
            let quarters = plane.as_chunks::<16>().0;
            // SAFETY: the reference is to 16 bytes.
            each!(|I| unsafe { vld1q_u8(quarters[I].as_ptr()) })
        }
        fn low_nibbles(plane: [uint8x16_t; 4]) -> [uint8x16_t; 4] {
            each!(|I| vandq_u8(plane[I], vdupq_n_u8(15)))
        }
        fn high_nibbles(plane: [uint8x16_t; 4]) -> [uint8x16_t; 4] {
            each!(|I| vshrq_n_u8::<4>(plane[I]))
        }
        fn shift(plane: [uint8x16_t; 4], left: i8) -> [uint8x16_t; 4] {
            each!(|I| vshlq_u8(plane[I], vdupq_n_s8(left)))
        }
        fn join(low: [uint8x16_t; 4], high: [uint8x16_t; 4], mask: u8) -> [uint8x16_t; 4] {
            each!(|I| vorrq_u8(low[I], vandq_u8(high[I], vdupq_n_u8(mask))))
        }
        fn ints(value: i32) -> [int32x4_t; 4] {
            [vdupq_n_s32(value); 4]
        }
        fn add_ints(a: [int32x4_t; 4], b: [int32x4_t; 4]) -> [int32x4_t; 4] {
            each!(|I| vaddq_s32(a[I], b[I]))
        }
        fn dot(sums: [int32x4_t; 4], plane: [uint8x16_t; 4], x: [i8; 4]) -> [int32x4_t; 4] {
            let x = repeat(x);
            // Bytes below 128 are the same signed.
            each!(|I| sdot(sums[I], vreinterpretq_s8_u8(plane[I]), x))
        }
        fn start_bytes(_minus_sum: i32) -> [int32x4_t; 4] {
            [vdupq_n_s32(0); 4]
        }
        fn dot_bytes(sums: [int32x4_t; 4], plane: [uint8x16_t; 4], x: [i8; 4]) -> [int32x4_t; 4] {
            let x = repeat(x);
            // Flipping the sign bit takes the 128 away again.
            each!(|I| sdot(sums[I], vreinterpretq_s8_u8(veorq_u8(plane[I], vdupq_n_u8(128))), x))
        }
        fn floats(value: f32) -> [float32x4_t; 4] {
            [vdupq_n_f32(value); 4]
        }
        fn to_floats(ints: [int32x4_t; 4]) -> [float32x4_t; 4] {
            each!(|I| vcvtq_f32_s32(ints[I]))
        }
        fn f32s(column: &[u8; 4 * GROUP]) -> [float32x4_t; 4] {
            let quarters = column.as_chunks::<16>().0;
            // SAFETY: the reference is to 16 bytes.
            each!(|I| vreinterpretq_f32_u8(unsafe { vld1q_u8(quarters[I].as_ptr()) }))
        }
        fn f16s(column: &[u8; 2 * GROUP]) -> [float32x4_t; 4] {
            let quarters = column.as_chunks::<8>().0;
            // SAFETY: the reference is to 8 bytes.
            each!(|I| vcvt_f32_f16(vreinterpret_f16_u8(unsafe { vld1_u8(quarters[I].as_ptr()) })))
        }
        fn bf16s(column: &[u8; 2 * GROUP]) -> [float32x4_t; 4] {
            let quarters = column.as_chunks::<8>().0;
            each!(|I| {
                // SAFETY: the reference is to 8 bytes.
                let halves = vreinterpret_u16_u8(unsafe { vld1_u8(quarters[I].as_ptr()) });
                vreinterpretq_f32_u32(vshlq_n_u32::<16>(vmovl_u16(halves)))
            })
        }
        fn u8s(column: &[u8; GROUP]) -> [float32x4_t; 4] {
            // SAFETY: the reference is to 16 bytes.
            let bytes = unsafe { vld1q_u8(column.as_ptr()) };
            let wide = [vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes)];
            widen([vreinterpretq_s16_u16(wide[0]), vreinterpretq_s16_u16(wide[1])])
        }
        fn i8s(column: &[u8; GROUP]) -> [float32x4_t; 4] {
            // SAFETY: the reference is to 16 bytes.
            let bytes = vreinterpretq_s8_u8(unsafe { vld1q_u8(column.as_ptr()) });
            widen([vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes)])
        }
        fn add(a: [float32x4_t; 4], b: [float32x4_t; 4]) -> [float32x4_t; 4] {
            each!(|I| vaddq_f32(a[I], b[I]))
        }
        fn multiply(a: [float32x4_t; 4], b: [float32x4_t; 4]) -> [float32x4_t; 4] {
            each!(|I| vmulq_f32(a[I], b[I]))
        }
        fn multiply_add(
            a: [float32x4_t; 4],
            b: [float32x4_t; 4],
            c: [float32x4_t; 4]
        ) -> [float32x4_t; 4] {
            each!(|I| vfmaq_f32(c[I], a[I], b[I]))
        }
        fn store(floats: [float32x4_t; 4], rows: &mut [f32; GROUP]) -> () {
            let quarters = rows.as_chunks_mut::<4>().0;
            each!(|I| {
                // SAFETY: the reference is to 4 floats.
                unsafe { vst1q_f32(quarters[I].as_mut_ptr(), floats[I]) }
            });
        }
    }

    #[inline(always)]
    fn run<J: Job>(self, job: J) {
        #[target_feature(enable = "neon,dotprod")]
        fn compiled<J: Job>(simd: Neon, job: J) {
            job.run(simd);
        }
        // SAFETY: `self` exists, so that the processor has these features.
        unsafe { compiled(self, job) }
    }
}
