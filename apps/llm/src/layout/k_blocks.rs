//! Blocks of 256 columns: a scale of sub-blocks' scales.

use super::{
    GROUP, PLANE, Part,
    blocks::{f16, nibbles, put_f16, put_words, with_bits, words},
};

/// Where the factors of the scales begin, in Q4_K and Q5_K: after scales and minima.
const FACTORS: usize = 4 * GROUP;
/// Where the factors of the minima begin.
const MINIMA: usize = FACTORS + 8 * GROUP;
/// Where the planes begin.
const PLANES: usize = MINIMA + 8 * GROUP;

/// Where the factors begin in Q6_K.
const Q6_K_FACTORS: usize = 2 * GROUP;
/// Where the planes begin in Q6_K.
const Q6_K_PLANES: usize = Q6_K_FACTORS + 16 * GROUP;

/// File: scale, minimum, 12 bytes of 6-bit factors, 128 bytes of nibbles.
pub(super) fn put_q4_k(row: usize, source: &[u8; 144], target: &mut [u8; super::Q4_K_BYTES]) {
    put_scales(row, source, target);
    let (chunks, _) = source[16..].as_chunks::<32>();
    let (pairs, _) = target[PLANES..].as_chunks_mut::<{ 8 * PLANE }>();
    for (chunk, pair) in chunks.iter().zip(pairs) {
        let (low, high) = pair.split_at_mut(4 * PLANE);
        put_words(row, low_nibbles(chunk), low);
        put_words(row, high_nibbles(chunk), high);
    }
}

/// File: scale, minimum, 12 bytes of 6-bit factors, 32 bytes whose bit `s` is that of column `c` in
/// sub-block `s`, 128 bytes of nibbles.
pub(super) fn put_q5_k(row: usize, source: &[u8; 176], target: &mut [u8; super::Q5_K_BYTES]) {
    put_scales(row, source, target);
    let (chunks, _) = source[48..].as_chunks::<32>();
    let (pairs, _) = target[PLANES..].as_chunks_mut::<{ 10 * PLANE }>();
    for (index, (chunk, pair)) in chunks.iter().zip(pairs).enumerate() {
        let (even, odd) = pair.split_at_mut(5 * PLANE);
        let bits = |part: usize| [gather_bits(&source[16..48], part)].into_iter();
        put_words(row, bits(2 * index).chain(low_nibbles(chunk)), even);
        put_words(row, bits(2 * index + 1).chain(high_nibbles(chunk)), odd);
    }
}

/// File: 128 bytes of low nibbles, 64 bytes of high pairs of bits, 16 signed factors, scale. Of
/// each half (128 columns), byte `c` of 64 has column `c` low and `c + 64` high, and byte `c` of 32
/// has the pairs of columns `c`, `c + 32`, `c + 64`, `c + 96` from its lowest bits up.
pub(super) fn put_q6_k(row: usize, source: &[u8; 210], target: &mut [u8; super::Q6_K_BYTES]) {
    put_f16(row, &source[208..], target);
    for (factor, factors) in source[192..208].iter().zip(target[Q6_K_FACTORS..].chunks_mut(GROUP)) {
        factors[row] = *factor;
    }
    let (parts, _) = target[Q6_K_PLANES..].as_chunks_mut::<{ 6 * PLANE }>();
    for (index, planes) in parts.iter_mut().enumerate() {
        let (half, quarter) = (index / 4, index % 4);
        let low = &source[64 * half + 32 * (quarter % 2)..][..32];
        let high = &source[128 + 32 * half..][..32];
        let (pairs, rest) = planes.split_at_mut(2 * PLANE);
        put_words(row, gather_pairs(high, quarter), pairs);
        if quarter < 2 {
            put_words(row, low_nibbles(low), rest);
        } else {
            put_words(row, high_nibbles(low), rest);
        }
    }
}

/// Puts what Q4_K and Q5_K have in common: scale, minimum and their factors.
fn put_scales(row: usize, source: &[u8], target: &mut [u8]) {
    put_f16(row, &source[..2], target);
    put_f16(row, &source[2..4], &mut target[2 * GROUP..]);
    let packed = &source[4..16];
    for part in 0..8 {
        // Six bits each: the first four of each kind are in bytes 0..4 and 4..8; of the others,
        // the low nibbles are in bytes 8..12 and the top bits in the top bits of the first ones.
        let (factor, minimum) = if part < 4 {
            (packed[part] & 63, packed[part + 4] & 63)
        } else {
            let low = packed[part + 4];
            (low & 15 | packed[part - 4] >> 6 << 4, low >> 4 | packed[part] >> 6 << 4)
        };
        target[FACTORS + part * GROUP + row] = factor;
        target[MINIMA + part * GROUP + row] = minimum;
    }
}

/// From 32 bytes, the words of four planes of nibbles: the bytes' low nibbles.
fn low_nibbles(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let (first, second) = bytes.split_at(16);
    words(first).zip(words(second)).map(|(a, b)| a & 0x0f0f_0f0f | (b & 0x0f0f_0f0f) << 4)
}

/// From 32 bytes, the words of four planes of nibbles: the bytes' high nibbles.
fn high_nibbles(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let (first, second) = bytes.split_at(16);
    words(first).zip(words(second)).map(|(a, b)| a >> 4 & 0x0f0f_0f0f | b & 0xf0f0_f0f0)
}

/// From 32 bytes, the word of a plane of bits: bit `part` of each byte.
fn gather_bits(bytes: &[u8], part: usize) -> u32 {
    words(bytes).zip(0..).fold(0, |bits, (word, quad)| bits | (word >> part & 0x0101_0101) << quad)
}

/// From 32 bytes, the words of two planes of pairs: pair `quarter` of each byte.
fn gather_pairs(bytes: &[u8], quarter: usize) -> impl Iterator<Item = u32> {
    bytes.chunks(16).map(move |half| {
        words(half).zip(0..).fold(0, |pairs, (word, quad)| {
            pairs | (word >> (2 * quarter) & 0x0303_0303) << (2 * quad)
        })
    })
}

pub(super) fn q4_k(block: &[u8], row: usize, part: usize) -> Part {
    let quants = nibbles(&block[PLANES + 4 * PLANE * part..], row);
    Part {
        quants,
        offset: 0,
        scales: [factor(block, row, part); 2],
        minimum: minimum(block, row, part),
    }
}

pub(super) fn q5_k(block: &[u8], row: usize, part: usize) -> Part {
    let (high, low) = block[PLANES + 5 * PLANE * part..].split_at(PLANE);
    let quants = with_bits(nibbles(low, row), high, row);
    Part {
        quants,
        offset: 0,
        scales: [factor(block, row, part); 2],
        minimum: minimum(block, row, part),
    }
}

pub(super) fn q6_k(block: &[u8], row: usize, part: usize) -> Part {
    let (high, low) = block[Q6_K_PLANES + 6 * PLANE * part..].split_at(2 * PLANE);
    let low = nibbles(low, row);
    let quants = std::array::from_fn(|c| {
        let pair = high[c / 16 * PLANE + 4 * row + c % 4] >> (2 * (c % 16 / 4)) & 3;
        low[c] | pair << 4
    });
    let scales = std::array::from_fn(|half| {
        let factor = block[Q6_K_FACTORS + (2 * part + half) * GROUP + row];
        f32::from(factor.cast_signed()) * f16(block, row)
    });
    Part { quants, offset: 32, scales, minimum: 0.0 }
}

/// The scale of a sub-block of Q4_K or Q5_K.
fn factor(block: &[u8], row: usize, part: usize) -> f32 {
    f32::from(block[FACTORS + part * GROUP + row]) * f16(block, row)
}

/// The minimum of a sub-block of Q4_K or Q5_K.
fn minimum(block: &[u8], row: usize, part: usize) -> f32 {
    f32::from(block[MINIMA + part * GROUP + row]) * f16(&block[2 * GROUP..], row)
}
