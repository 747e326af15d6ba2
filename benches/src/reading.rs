//! The bound of all that streams weights: reading the same bytes, and doing nothing with them.

use std::hint::black_box;

use pangea_llm::pool::Pool;

/// Bytes that one task reads: many pages, and still many tasks.
const TASK: usize = 1 << 20;

/// Reads all of `slices`, on all threads of `pool`.
pub fn read(pool: &Pool, slices: &[&[u8]]) {
    let tasks: Vec<&[u8]> = slices.iter().flat_map(|bytes| bytes.chunks(TASK)).collect();
    pool.run(tasks.len(), &|task| _ = black_box(sum(tasks[task])));
}

/// The exclusive or of all 64-bit words, or so: too little work to be what is measured. Four
/// streams are read in step, and with the registers that the kernels use, where there are such:
/// both keep more of the memory busy.
fn sum(bytes: &[u8]) -> u64 {
    let (lines, _) = bytes.as_chunks::<64>();
    let (front, back) = lines.split_at(lines.len() / 2);
    let streams = [front.split_at(front.len() / 2), back.split_at(back.len() / 2)];
    let [(one, two), (three, four)] = streams;
    let lines = one.iter().zip(two).zip(three).zip(four);
    let lines = lines.map(|(((one, two), three), four)| [one, two, three, four]);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor was just asked for the feature.
        return unsafe { sum_avx512(lines) };
    }
    let mut lanes = [0; 8];
    for line in lines.flatten() {
        for (lane, word) in lanes.iter_mut().zip(line.as_chunks().0) {
            *lane ^= u64::from_ne_bytes(*word);
        }
    }
    lanes.into_iter().fold(0, |sum, lane| sum ^ lane)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn sum_avx512<'a>(lines: impl Iterator<Item = [&'a [u8; 64]; 4]>) -> u64 {
    use std::arch::x86_64::{
        _mm512_loadu_si512, _mm512_reduce_add_epi64, _mm512_setzero_si512, _mm512_xor_si512,
    };
    let mut sums = [_mm512_setzero_si512(); 4];
    for lines in lines {
        for (sum, line) in sums.iter_mut().zip(lines) {
            // SAFETY: a line is 64 bytes; the load needs no alignment.
            let line = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
            *sum = _mm512_xor_si512(*sum, line);
        }
    }
    let [one, two, three, four] = sums;
    let sum = _mm512_xor_si512(_mm512_xor_si512(one, two), _mm512_xor_si512(three, four));
    _mm512_reduce_add_epi64(sum).cast_unsigned()
}
