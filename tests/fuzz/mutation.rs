//! Makes inputs that are nearly right.

use pangea_rdma::sim::Random;

/// Numbers at which arithmetic goes wrong.
const EDGES: [u64; 8] = [0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, u64::MAX / 2, u64::MAX];
/// Bytes of the longest input.
const LEN_MAX: usize = 64 << 10;

/// An element of `corpus`, changed in a few places.
pub(crate) fn mutate(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = pick(corpus, random).clone();
    for _ in 0..=random.below(6) {
        match random.below(7) {
            0 => flip(&mut bytes, random),
            1 => set(&mut bytes, random),
            2 => bytes.truncate(random.index(bytes.len() + 1)),
            3 => splice(&mut bytes, pick(corpus, random), random),
            4 => repeat(&mut bytes, random),
            5 => remove(&mut bytes, random),
            _ => extend(&mut bytes, random),
        }
        bytes.truncate(LEN_MAX);
    }
    bytes
}

fn pick<'a>(corpus: &'a [Vec<u8>], random: &mut Random) -> &'a Vec<u8> {
    &corpus[random.index(corpus.len())]
}

/// A place in `bytes`, more often near the start, where heads are; none in nothing.
fn place(bytes: &[u8], random: &mut Random) -> Option<usize> {
    let len = if random.chance(500_000) { bytes.len().min(100) } else { bytes.len() };
    (len > 0).then(|| random.index(len))
}

fn flip(bytes: &mut [u8], random: &mut Random) {
    if let Some(at) = place(bytes, random) {
        bytes[at] ^= 1 << random.below(8);
    }
}

/// Overwrites a number of 1, 2, 4 or 8 bytes.
fn set(bytes: &mut [u8], random: &mut Random) {
    let Some(at) = place(bytes, random) else { return };
    let number = EDGES[random.index(EDGES.len())].wrapping_add(random.below(3)).to_le_bytes();
    let len = (1 << random.below(4)).min(bytes.len() - at);
    bytes[at..at + len].copy_from_slice(&number[..len]);
}

/// Goes on as another input does.
fn splice(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    bytes.truncate(random.index(bytes.len() + 1));
    bytes.extend(&other[random.index(other.len() + 1)..]);
}

fn range(bytes: &[u8], random: &mut Random) -> std::ops::Range<usize> {
    let start = random.index(bytes.len() + 1);
    start..start + random.index(bytes.len() - start + 1)
}

/// Says something twice.
fn repeat(bytes: &mut Vec<u8>, random: &mut Random) {
    let part = bytes[range(bytes, random)].to_vec();
    let at = random.index(bytes.len() + 1);
    bytes.splice(at..at, part);
}

fn remove(bytes: &mut Vec<u8>, random: &mut Random) {
    bytes.drain(range(bytes, random));
}

fn extend(bytes: &mut Vec<u8>, random: &mut Random) {
    let mut more = vec![0; random.index(100)];
    random.fill(&mut more);
    bytes.extend(more);
}
