//! Blocks of one scale: one row's share is put into a packed block, or read from it.

use super::{GROUP, PART, PLANE, Part};

/// Where the planes begin: after the scales.
const PLANES: usize = 2 * GROUP;

/// Puts one element, `SIZE` bytes, into a column.
pub(super) fn put_float<const SIZE: usize, const COLUMN: usize>(
    row: usize,
    source: &[u8; SIZE],
    target: &mut [u8; COLUMN],
) {
    target.as_chunks_mut().0[row] = *source;
}

/// File: scale, 32 signed bytes.
pub(super) fn put_q8_0(row: usize, source: &[u8; 34], target: &mut [u8; super::Q8_0_BYTES]) {
    put_f16(row, &source[..2], target);
    let (planes, _) = target[PLANES..].as_chunks_mut::<PLANE>();
    for (plane, quad) in planes.iter_mut().zip(words(&source[2..])) {
        // Adding 128 to a signed byte is flipping its sign bit.
        put_word(row, quad ^ 0x8080_8080, plane);
    }
}

/// File: scale, 16 bytes of nibbles: column `c` low, column `c + 16` high, as in a plane.
pub(super) fn put_q4_0(row: usize, source: &[u8; 18], target: &mut [u8; super::Q4_0_BYTES]) {
    put_f16(row, &source[..2], target);
    put_words(row, words(&source[2..]), &mut target[PLANES..]);
}

/// File: scale, 32 high bits by column, 16 bytes of nibbles as in Q4_0.
pub(super) fn put_q5_0(row: usize, source: &[u8; 22], target: &mut [u8; super::Q5_0_BYTES]) {
    put_f16(row, &source[..2], target);
    let bits = words(&source[2..6]).next().expect("four bytes are a word");
    let planes = [transpose_bits(bits)].into_iter().chain(words(&source[6..]));
    put_words(row, planes, &mut target[PLANES..]);
}

/// Turns bit `4q + i` into bit `q` of byte `i`.
fn transpose_bits(bits: u32) -> u32 {
    let byte = |i: u32| {
        // The wanted bits are now the lowest of each nibble; halve their distance three times.
        let mut kept = (bits >> i) & 0x1111_1111;
        kept = (kept | kept >> 3) & 0x0303_0303;
        kept = (kept | kept >> 6) & 0x000f_000f;
        (kept | kept >> 12) & 0xff
    };
    byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24
}

/// Puts an F16 into the 16 that `target` begins with.
pub(super) fn put_f16(row: usize, source: &[u8], target: &mut [u8]) {
    target[2 * row..][..2].copy_from_slice(source);
}

/// Puts a word into each of consecutive planes.
pub(super) fn put_words(row: usize, words: impl Iterator<Item = u32>, planes: &mut [u8]) {
    for (plane, word) in planes.as_chunks_mut().0.iter_mut().zip(words) {
        put_word(row, word, plane);
    }
}

fn put_word(row: usize, word: u32, plane: &mut [u8; PLANE]) {
    plane[4 * row..][..4].copy_from_slice(&word.to_le_bytes());
}

/// The little-endian words of `bytes`.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word))
}

pub(super) fn q8_0(block: &[u8], row: usize) -> Part {
    let planes = &block[PLANES..];
    let quants = std::array::from_fn(|c| planes[c / 4 * PLANE + 4 * row + c % 4]);
    one_scale(block, row, quants, 128)
}

pub(super) fn q4_0(block: &[u8], row: usize) -> Part {
    one_scale(block, row, nibbles(&block[PLANES..], row), 8)
}

pub(super) fn q5_0(block: &[u8], row: usize) -> Part {
    let (high, low) = block[PLANES..].split_at(PLANE);
    one_scale(block, row, with_bits(nibbles(low, row), high, row), 16)
}

fn one_scale(block: &[u8], row: usize, quants: [u8; PART], offset: u8) -> Part {
    Part { quants, offset, scales: [f16(block, row); 2], minimum: 0.0 }
}

/// The F16 of `row` in the 16 that `bytes` begins with.
pub(super) fn f16(bytes: &[u8], row: usize) -> f32 {
    half::f16::from_le_bytes(bytes.as_chunks().0[row]).to_f32()
}

/// 32 columns of four planes of nibbles.
pub(super) fn nibbles(planes: &[u8], row: usize) -> [u8; PART] {
    std::array::from_fn(|c| {
        let byte = planes[c % 16 / 4 * PLANE + 4 * row + c % 4];
        if c < 16 { byte & 15 } else { byte >> 4 }
    })
}

/// Adds the fifth bits, a plane of bits, to 32 columns.
pub(super) fn with_bits(low: [u8; PART], plane: &[u8], row: usize) -> [u8; PART] {
    std::array::from_fn(|c| low[c] | (plane[4 * row + c % 4] >> (c / 4) & 1) << 4)
}
