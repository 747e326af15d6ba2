//! Input vectors, as floats and quantized.

use half::f16;

use crate::layout::PART;

/// 32 columns of an input vector, quantized.
///
/// The scales are ggml's, so that its answers are ours: one for 32 columns, rounded to 16 bits, or
/// one for 256 columns where the weights have blocks of 256.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Quantized {
    /// The columns over the scale, rounded: -127 to 127.
    pub(crate) quants: [[i8; 4]; PART / 4],
    /// What a step of the quants is worth.
    pub(crate) scale: f32,
    /// Minus the sum of the columns: what a weight's minimum is multiplied with.
    pub(crate) offset: f32,
    /// Minus the sums of the first and the last 16 quants: what a weight's offset is multiplied
    /// with.
    pub(crate) sums: [i32; 2],
}

/// Any number of input vectors of `columns` columns, replaced without allocating.
#[derive(Debug, Default)]
pub struct Activations {
    columns: usize,
    values: Vec<f32>,
    // With a scale for each 32 columns.
    quantized: Vec<Quantized>,
    // With a scale for each 256 columns.
    k_quantized: Vec<Quantized>,
}

impl Activations {
    /// No vectors yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the vectors by those in `values`, each `columns` long, one after the other.
    ///
    /// # Panics
    ///
    /// Where `values` is not a whole number of vectors.
    pub fn set(&mut self, values: &[f32], columns: usize) {
        assert!(columns > 0 && values.len().is_multiple_of(columns), "whole vectors");
        self.columns = columns;
        self.values.clear();
        self.values.extend_from_slice(values);
        self.quantized.clear();
        self.k_quantized.clear();
        // Other lengths cannot meet a quantized matrix, or one in long blocks.
        if columns.is_multiple_of(PART) {
            let blocks = values.as_chunks().0.iter();
            self.quantized.extend(blocks.map(|block| quantize(block, Scale::of(block).rounded())));
        }
        if columns.is_multiple_of(K_BLOCK) {
            for block in values.chunks_exact(K_BLOCK) {
                let (scale, parts) = (Scale::of(block), block.as_chunks().0.iter());
                self.k_quantized.extend(parts.map(|part| quantize(part, scale)));
            }
        }
    }

    /// The length of a vector.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The number of vectors.
    pub fn tokens(&self) -> usize {
        self.values.len().checked_div(self.columns).unwrap_or(0)
    }

    /// One vector.
    pub(super) fn values(&self, token: usize) -> &[f32] {
        &self.values[token * self.columns..][..self.columns]
    }

    /// One vector, quantized for weights in blocks of `block_len`, of which it is a whole number.
    pub(super) fn quantized(&self, token: usize, block_len: usize) -> &[Quantized] {
        let quantized = if block_len == K_BLOCK { &self.k_quantized } else { &self.quantized };
        let parts = self.columns / PART;
        &quantized[token * parts..][..parts]
    }
}

/// Columns of a block of the K types.
const K_BLOCK: usize = 256;

/// What columns are quantized by.
#[derive(Clone, Copy)]
struct Scale {
    /// What a step of the quants is worth.
    step: f32,
    /// Steps in 1.
    inverse: f32,
}

impl Scale {
    /// The scale that makes the greatest magnitude 127.
    ///
    /// Columns that are not finite make the step NaN, and so every product.
    fn of(values: &[f32]) -> Self {
        let mut greatest = 0;
        for value in values {
            // As integers, magnitudes compare as they do as floats, and NaN is greatest.
            greatest = greatest.max(value.to_bits() & 0x7fff_ffff);
        }
        let greatest = f32::from_bits(greatest);
        let step = if greatest.is_finite() { greatest / 127.0 } else { f32::NAN };
        // The smallest magnitudes have no finite inverse; they are zeros.
        let inverse = if greatest < 127.0 * f32::MIN_POSITIVE { 0.0 } else { 127.0 / greatest };
        Self { step, inverse }
    }

    /// The same quants, each worth what 16 bits can say.
    fn rounded(self) -> Self {
        Self { step: f16::from_f32(self.step).to_f32(), ..self }
    }
}

/// Adding this to a float below 2^22 leaves its nearest integer in the lowest bits, ties to even.
const ROUND: f32 = 12_582_912.0;

/// Quantizes 32 columns.
fn quantize(values: &[f32; PART], scale: Scale) -> Quantized {
    let mut steps = [[0; PART / 2]; 2];
    for (step, value) in steps.as_flattened_mut().iter_mut().zip(values) {
        let bits = (value * scale.inverse + ROUND).to_bits();
        *step = i32::from(bits.to_le_bytes()[0].cast_signed());
    }
    let mut quants = [[0; 4]; PART / 4];
    for (quant, step) in quants.as_flattened_mut().iter_mut().zip(steps.as_flattened()) {
        *quant = step.to_le_bytes()[0].cast_signed();
    }
    let sums = [-steps[0].iter().sum::<i32>(), -steps[1].iter().sum::<i32>()];
    let offset = scale.step * small_float(sums[0] + sums[1]);
    Quantized { quants, scale: scale.step, offset, sums }
}

/// A sum of quants as a float, exactly.
#[expect(clippy::cast_precision_loss, reason = "sums of 32 bytes are far below 2^24")]
fn small_float(sum: i32) -> f32 {
    sum as f32
}
