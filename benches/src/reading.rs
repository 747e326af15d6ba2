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

/// The exclusive or of all 64-bit words: too little work to be what is measured. Four streams are
/// read in step, which keeps more of the memory busy than one does.
fn sum(bytes: &[u8]) -> u64 {
    let (lines, _) = bytes.as_chunks::<64>();
    let quarter = lines.len() / 4;
    let mut streams = lines.chunks_exact(quarter.max(1));
    let mut next = || streams.next().unwrap_or(&[]);
    let (one, two, three, four) = (next(), next(), next(), next());
    let mut lanes = [0; 8];
    for (((one, two), three), four) in one.iter().zip(two).zip(three).zip(four) {
        for line in [one, two, three, four] {
            for (lane, word) in lanes.iter_mut().zip(line.as_chunks().0) {
                *lane ^= u64::from_ne_bytes(*word);
            }
        }
    }
    lanes.into_iter().fold(0, |sum, lane| sum ^ lane)
}
