//! What tests make models and vectors of.

use crate::tensor_type::TensorType;

/// A reproducible stream of numbers: a linear congruential generator.
#[derive(Debug)]
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0.to_be_bytes()[0]
    }

    /// Evenly between -1 and 1.
    pub(crate) fn float(&mut self) -> f32 {
        let number = u16::from_le_bytes([self.byte(), self.byte()]);
        f32::from(number) / 32768.0 - 1.0
    }
}

/// Rows in the file's format, of any quants, and scales between -1 and 1.
pub(crate) fn file_rows(
    tensor_type: TensorType,
    rows: usize,
    columns: usize,
    noise: &mut Noise,
) -> Vec<u8> {
    let bytes = tensor_type.row_bytes(columns).expect("whole blocks") * rows;
    let mut source: Vec<u8> = (0..bytes).map(|_| noise.byte()).collect();
    for block in source.chunks_mut(tensor_type.block_bytes()) {
        let half = |noise: &mut Noise| half::f16::from_f32(noise.float()).to_le_bytes();
        match tensor_type {
            TensorType::F32 => block.copy_from_slice(&noise.float().to_le_bytes()),
            TensorType::BF16 => block.copy_from_slice(&noise.float().to_le_bytes()[2..]),
            TensorType::Q4_K | TensorType::Q5_K => {
                block[..2].copy_from_slice(&half(noise));
                block[2..4].copy_from_slice(&half(noise));
            }
            TensorType::Q6_K => block[208..].copy_from_slice(&half(noise)),
            _ => block[..2].copy_from_slice(&half(noise)),
        }
    }
    source
}
