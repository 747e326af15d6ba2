//! The element types of GGUF tensors that this program computes with.

/// How the elements of a tensor are stored.
///
/// Blocks are those of ggml: `ggml-common.h`, and the GGUF specification.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[allow(non_camel_case_types, reason = "names are those of ggml")]
pub enum TensorType {
    /// 32-bit IEEE float.
    F32,
    /// 16-bit IEEE float.
    F16,
    /// The upper half of a 32-bit float.
    BF16,
    /// 32 signed bytes and an F16 scale.
    Q8_0,
    /// 32 nibbles, offset 8, and an F16 scale.
    Q4_0,
    /// 32 five-bit numbers, offset 16, and an F16 scale.
    Q5_0,
    /// 256 nibbles in 8 sub-blocks with 6-bit scales and minima.
    Q4_K,
    /// 256 five-bit numbers in 8 sub-blocks with 6-bit scales and minima.
    Q5_K,
    /// 256 six-bit numbers, offset 32, in 16 sub-blocks with 8-bit scales.
    Q6_K,
}

impl TensorType {
    /// Every type, in the order of the declaration.
    pub const ALL: [Self; 9] = [
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::Q8_0,
        Self::Q4_0,
        Self::Q5_0,
        Self::Q4_K,
        Self::Q5_K,
        Self::Q6_K,
    ];

    /// The type that ggml numbers `id`, if it is one of ours.
    pub fn from_ggml(id: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.ggml_id() == id)
    }

    /// The number of this type in a GGUF file.
    pub fn ggml_id(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q5_0 => 6,
            Self::Q8_0 => 8,
            Self::Q4_K => 12,
            Self::Q5_K => 13,
            Self::Q6_K => 14,
            Self::BF16 => 30,
        }
    }

    /// ggml's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::Q8_0 => "Q8_0",
            Self::Q4_0 => "Q4_0",
            Self::Q5_0 => "Q5_0",
            Self::Q4_K => "Q4_K",
            Self::Q5_K => "Q5_K",
            Self::Q6_K => "Q6_K",
        }
    }

    /// Whether elements stand alone, without blocks.
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::BF16)
    }

    /// Whether a minimum is subtracted from elements.
    pub(crate) fn has_minima(self) -> bool {
        matches!(self, Self::Q4_K | Self::Q5_K)
    }

    /// Elements in a block.
    pub fn block_len(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 1,
            Self::Q8_0 | Self::Q4_0 | Self::Q5_0 => 32,
            Self::Q4_K | Self::Q5_K | Self::Q6_K => 256,
        }
    }

    /// Bytes of a block in the file.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
            Self::Q5_0 => 22,
            Self::Q4_K => 144,
            Self::Q5_K => 176,
            Self::Q6_K => 210,
        }
    }

    /// Bytes of a row of `columns` elements in the file; `None` where `columns` is not a whole
    /// number of blocks, or the product overflows.
    pub fn row_bytes(self, columns: usize) -> Option<usize> {
        if !columns.is_multiple_of(self.block_len()) {
            return None;
        }
        (columns / self.block_len()).checked_mul(self.block_bytes())
    }
}
