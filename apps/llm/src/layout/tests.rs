use super::*;
use crate::testing::{Noise, file_rows};

/// Elements of one block, as the description of the file format has them.
fn dequantize(tensor_type: TensorType, block: &[u8]) -> Vec<f32> {
    let half = |at: usize| half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
    let float = |element: &[u8]| match *element {
        [a, b] if tensor_type == TensorType::F16 => half::f16::from_le_bytes([a, b]).to_f32(),
        [a, b] => f32::from_bits(u32::from_le_bytes([0, 0, a, b])),
        [a, b, c, d] => f32::from_le_bytes([a, b, c, d]),
        _ => unreachable!("an element has two bytes or four"),
    };
    let nibble = |bytes: &[u8], c: usize| bytes[c % 16] >> (c / 16 * 4) & 15;
    let column = |c: usize| match tensor_type {
        TensorType::Q8_0 => half(0) * f32::from(block[2 + c].cast_signed()),
        TensorType::Q4_0 => half(0) * (f32::from(nibble(&block[2..], c)) - 8.0),
        TensorType::Q5_0 => {
            let high = block[2 + c / 8] >> (c % 8) & 1;
            half(0) * (f32::from(nibble(&block[6..], c) | high << 4) - 16.0)
        }
        TensorType::Q4_K => {
            k_value(block, c, block[16 + c / 64 * 32 + c % 32] >> (c / 32 % 2 * 4) & 15)
        }
        TensorType::Q5_K => {
            let high = block[16 + c % 32] >> (c / 32) & 1;
            k_value(block, c, block[48 + c / 64 * 32 + c % 32] >> (c / 32 % 2 * 4) & 15 | high << 4)
        }
        TensorType::Q6_K => {
            let (half_block, within) = (c / 128, c % 128);
            let low = block[64 * half_block + within % 64] >> (within / 64 * 4) & 15;
            let high = block[128 + 32 * half_block + within % 32] >> (within / 32 * 2) & 3;
            let factor = f32::from(block[192 + c / 16].cast_signed());
            half(208) * factor * (f32::from(low | high << 4) - 32.0)
        }
        _ => float(block),
    };
    (0..tensor_type.block_len()).map(column).collect()
}

/// A column of Q4_K or Q5_K: the quant times its sub-block's scale, less its minimum.
fn k_value(block: &[u8], column: usize, quant: u8) -> f32 {
    let half = |at: usize| half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
    let (packed, j) = (&block[4..16], column / 32);
    let (factor, minimum) = if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        (packed[j + 4] & 15 | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4)
    };
    half(0) * f32::from(factor) * f32::from(quant) - half(2) * f32::from(minimum)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn unpacked_rows_are_the_rows_of_the_file() {
    let mut noise = Noise::new(1);
    for tensor_type in TensorType::ALL {
        for (rows, blocks) in [(1, 1), (15, 2), (16, 1), (17, 3), (40, 2)] {
            let columns = blocks * tensor_type.block_len();
            let source = file_rows(tensor_type, rows, columns, &mut noise);
            let mut packed = vec![0xaa; packed_bytes(tensor_type, rows, columns).unwrap()];
            pack(tensor_type, &source, rows, columns, &mut packed);
            let mut out = vec![0.0; columns];
            for (row, source) in source.chunks(source.len() / rows).enumerate() {
                let group =
                    packed.chunks(group_bytes(tensor_type, columns).unwrap()).nth(row / GROUP);
                unpack_row(tensor_type, group.unwrap(), row % GROUP, &mut out);
                let blocks = source.chunks(tensor_type.block_bytes());
                let expected: Vec<_> = blocks.flat_map(|b| dequantize(tensor_type, b)).collect();
                assert_eq!(bits(&out), bits(&expected), "{tensor_type:?}, row {row} of {rows}");
            }
        }
    }
}

#[test]
fn padding_rows_are_zeros() {
    let mut noise = Noise::new(2);
    for tensor_type in TensorType::ALL {
        let columns = tensor_type.block_len();
        let source = file_rows(tensor_type, 3, columns, &mut noise);
        let mut packed = vec![0xaa; packed_bytes(tensor_type, 3, columns).unwrap()];
        pack(tensor_type, &source, 3, columns, &mut packed);
        let mut out = vec![1.0; columns];
        for row in 3..GROUP {
            unpack_row(tensor_type, &packed, row, &mut out);
            assert!(out.iter().all(|v| *v == 0.0), "{tensor_type:?}, row {row}");
        }
    }
}

#[test]
fn groups_packed_apart_are_those_packed_together() {
    let mut noise = Noise::new(3);
    for tensor_type in TensorType::ALL {
        let columns = 2 * tensor_type.block_len();
        let source = file_rows(tensor_type, 40, columns, &mut noise);
        let mut together = vec![0; packed_bytes(tensor_type, 40, columns).unwrap()];
        pack(tensor_type, &source, 40, columns, &mut together);
        let (first, rest) = source.split_at(source.len() / 40 * GROUP);
        let mut apart = vec![0; together.len()];
        let (target, others) = apart.split_at_mut(group_bytes(tensor_type, columns).unwrap());
        pack(tensor_type, first, GROUP, columns, target);
        pack(tensor_type, rest, 40 - GROUP, columns, others);
        assert_eq!(together, apart, "{tensor_type:?}");
    }
}

#[test]
fn packing_takes_at_most_three_percent_more_than_the_file() {
    for tensor_type in TensorType::ALL {
        let file = tensor_type.row_bytes(1024).unwrap() * 64;
        let packed = packed_bytes(tensor_type, 64, 1024).unwrap();
        assert!((file..=file + file * 3 / 100).contains(&packed), "{tensor_type:?}: {packed}");
    }
}

#[test]
fn sizes_that_cannot_be_are_none() {
    assert_eq!(packed_bytes(TensorType::Q4_K, 16, 128), None);
    assert_eq!(packed_bytes(TensorType::F32, usize::MAX, 1024), None);
    assert_eq!(packed_bytes(TensorType::F32, 16, usize::MAX), None);
}
