//! Arithmetic on vectors of floats, written so that the compiler uses vector instructions.

use super::widest::{Work, widest};
use crate::kv_cache::GROUP;

/// Sums kept side by side, in one to four registers.
const LANES: usize = 16;

/// The sum of `numbers`, each changed by `change`.
#[inline(always)]
fn sum(numbers: &[f32], change: impl Fn(f32) -> f32) -> f32 {
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for chunk in chunks {
        for (sum, number) in sums.iter_mut().zip(chunk) {
            *sum += change(*number);
        }
    }
    sums.iter().sum::<f32>() + rest.iter().map(|number| change(*number)).sum::<f32>()
}

/// `sum += vector`
pub(super) fn add(sum: &mut [f32], vector: &[f32]) {
    for (sum, value) in sum.iter_mut().zip(vector) {
        *sum += value;
    }
}

/// Sets every score to the product of `query` with its key, times `scale`. The keys are those of
/// [`LayerCache::keys`](crate::kv_cache::LayerCache::keys), and so are as many scores.
#[inline(always)]
pub(super) fn score(query: &[f32], keys: &[f32], scale: f32, scores: &mut [f32]) {
    let keys = keys.chunks_exact(query.len() * GROUP);
    for (scores, keys) in scores.as_chunks_mut::<GROUP>().0.iter_mut().zip(keys) {
        let mut sums = [0.0; GROUP];
        for (element, keys) in query.iter().zip(keys.as_chunks::<GROUP>().0) {
            for lane in 0..GROUP {
                sums[lane] += element * keys[lane];
            }
        }
        *scores = sums.map(|sum| sum * scale);
    }
}

/// Adds to `sum` every vector in `vectors`, times its weight.
#[inline(always)]
pub(super) fn add_weighted(sum: &mut [f32], weights: &[f32], vectors: &[f32]) {
    let len = sum.len();
    let (fours, rest) = weights.as_chunks();
    let (in_fours, others) = vectors.split_at(fours.len() * 4 * len);
    // Four at a time: the sum is read and written less often, and added up in the same order.
    for ([w0, w1, w2, w3], vectors) in fours.iter().zip(in_fours.chunks_exact(4 * len)) {
        let (v01, v23) = vectors.split_at(2 * len);
        let ((v0, v1), (v2, v3)) = (v01.split_at(len), v23.split_at(len));
        for ((((sum, v0), v1), v2), v3) in sum.iter_mut().zip(v0).zip(v1).zip(v2).zip(v3) {
            *sum = *sum + w0 * v0 + w1 * v1 + w2 * v2 + w3 * v3;
        }
    }
    for (weight, vector) in rest.iter().zip(others.chunks_exact(len)) {
        for (sum, value) in sum.iter_mut().zip(vector) {
            *sum += weight * value;
        }
    }
}

/// Adds `bias` to every vector of its length in `vectors`.
pub(super) fn add_to_each(vectors: &mut [f32], bias: &[f32]) {
    for vector in vectors.chunks_exact_mut(bias.len()) {
        add(vector, bias);
    }
}

/// Brings every vector of the length of `weight` to a mean square of 1, times `weight`.
pub(super) fn rms_norm(vectors: &[f32], weight: &[f32], epsilon: f32, output: &mut [f32]) {
    output.copy_from_slice(vectors);
    rms_norm_in_place(output, weight, epsilon);
}

/// [`rms_norm`] that replaces the vectors.
pub(super) fn rms_norm_in_place(vectors: &mut [f32], weight: &[f32], epsilon: f32) {
    for vector in vectors.chunks_exact_mut(weight.len()) {
        let mean = sum(vector, |value| value * value) / len(vector);
        let scale = 1.0 / (mean + epsilon).sqrt();
        for (value, weight) in vector.iter_mut().zip(weight) {
            *value = *value * scale * weight;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "vectors have far fewer than 2^24 elements")]
fn len(vector: &[f32]) -> f32 {
    vector.len() as f32
}

/// `gate = silu(gate) × up`
#[inline(always)]
pub(super) fn swiglu(gate: &mut [f32], up: &[f32]) {
    widest(Swiglu { gate, up });
}

struct Swiglu<'a> {
    gate: &'a mut [f32],
    up: &'a [f32],
}

impl Work for Swiglu<'_> {
    #[inline(always)]
    fn run(self) {
        for (gate, up) in self.gate.iter_mut().zip(self.up) {
            *gate = *gate / (1.0 + exp(-*gate)) * up;
        }
    }
}

/// Turns scores into weights that add up to 1.
#[inline(always)]
pub(super) fn softmax(scores: &mut [f32]) {
    let greatest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    scores.iter_mut().for_each(|score| *score = exp(*score - greatest));
    let scale = 1.0 / sum(scores, |score| score);
    scores.iter_mut().for_each(|score| *score *= scale);
}

/// e to the power of `x`, to about one unit in the last place; what over- or underflows is about
/// 1e38 or 1e-38.
///
/// A call of the library's function would keep the loops around it from being vectorised, and
/// differs between platforms.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // Adding this leaves the nearest integer in the lowest bits.
    const ROUND: f32 = 1.5 * (1 << 23) as f32;
    // ln 2 in two parts: the first has few digits, so that its multiples are exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = x.clamp(-87.3, 88.3);
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let power = rounded - ROUND;
    let rest = x - power * LN_2_HIGH - power * LN_2_LOW;
    // Taylor's series; |rest| is at most half of ln 2, where the next term is below 1e-8.
    let mut series = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        series = series * rest + coefficient;
    }
    let two_to_power = f32::from_bits(rounded.to_bits().wrapping_add(127) << 23);
    series * two_to_power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_exact_to_the_last_places() {
        let mut worst = 0.0_f64;
        for step in -8700..8800 {
            let x = step as f32 / 100.0;
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) / exact - 1.0).abs());
        }
        assert!(worst < 2.5e-7, "{worst}");
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NEG_INFINITY) < 2e-38 && exp(f32::INFINITY) > 1e38);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn sums_take_in_every_element() {
        for len in 1..70 {
            let numbers: Vec<f32> = (0..len).map(|n| n as f32).collect();
            assert_eq!(sum(&numbers, |n| 2.0 * n), (len * (len - 1)) as f32);
            let mut total = [1.0];
            add_weighted(&mut total, &numbers, &vec![2.0; len]);
            assert_eq!(total, [1.0 + (len * (len - 1)) as f32]);
        }
    }

    #[test]
    fn a_score_is_a_product_with_its_own_key() {
        let mut keys = vec![0.0; 2 * 3 * GROUP];
        for position in 0..2 * GROUP {
            let (group, lane) = (position / GROUP, position % GROUP);
            for element in 0..3 {
                keys[(group * 3 + element) * GROUP + lane] = (position * 10 + element) as f32;
            }
        }
        let mut scores = [f32::NAN; 2 * GROUP];
        score(&[1.0, 0.0, 100.0], &keys, 0.5, &mut scores);
        for (position, score) in scores.iter().enumerate() {
            assert_eq!(*score, (position * 10 + 100 * (position * 10 + 2)) as f32 / 2.0);
        }
    }

    #[test]
    fn softmax_survives_large_scores() {
        let mut scores = [1000.0, 1001.0, -1000.0];
        softmax(&mut scores);
        let expected = 1.0 / (1.0 + 1.0_f32.exp());
        assert!((scores[0] - expected).abs() < 1e-6 && scores[2] < 1e-30, "{scores:?}");
        assert!((scores.iter().sum::<f32>() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn rms_norm_scales_each_vector_by_itself() {
        let mut output = [0.0; 4];
        rms_norm(&[3.0, 3.0, 0.0, 8.0], &[1.0, 2.0], 0.0, &mut output);
        let half = 8.0 / 32.0_f32.sqrt();
        assert_eq!(output, [1.0, 2.0, 0.0, half * 2.0]);
    }
}
