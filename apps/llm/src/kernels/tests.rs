use half::f16;

use super::*;
use crate::testing::{Noise, file_rows};

/// A packed matrix, cut into shards.
struct Packed {
    tensor_type: TensorType,
    columns: usize,
    shards: Vec<(usize, Vec<u8>)>,
}

impl Packed {
    /// Rows of the file in at most `shards` shards, each of whole groups but the last.
    fn new(tensor_type: TensorType, source: &[u8], columns: usize, shards: usize) -> Self {
        let row_bytes = tensor_type.row_bytes(columns).unwrap();
        let groups = (source.len() / row_bytes).div_ceil(GROUP);
        let pack = |source: &[u8]| {
            let rows = source.len() / row_bytes;
            let mut packed = vec![0; layout::packed_bytes(tensor_type, rows, columns).unwrap()];
            layout::pack(tensor_type, source, rows, columns, &mut packed);
            (rows, packed)
        };
        let shards = source.chunks(groups.div_ceil(shards) * GROUP * row_bytes).map(pack).collect();
        Self { tensor_type, columns, shards }
    }

    fn matrix(&self) -> Matrix<'_> {
        let mut next_row = 0;
        let mut shards = Vec::new();
        for (rows, bytes) in &self.shards {
            shards.push(Shard { first_row: next_row, rows: *rows, bytes });
            next_row += rows;
        }
        Matrix::new(self.tensor_type, self.columns, shards)
    }
}

fn vectors(tokens: usize, columns: usize) -> Vec<f32> {
    let mut noise = Noise::new(7);
    (0..tokens * columns).map(|_| noise.float()).collect()
}

fn activations(values: &[f32], columns: usize) -> Activations {
    let mut x = Activations::new();
    x.set(values, columns);
    x
}

fn product(kernels: Kernels, pool: &Pool, matrix: &Matrix<'_>, x: &Activations) -> Vec<u32> {
    let mut output = vec![f32::MAX; matrix.rows() * x.tokens()];
    kernels.multiply(pool, x, &mut [Product { matrix, output: &mut output }]);
    output.iter().map(|v| v.to_bits()).collect()
}

/// Asserts that all kernels agree with the reference to the bit.
fn check(tensor_type: TensorType, source: &[u8], values: &[f32], columns: usize) {
    let packed = Packed::new(tensor_type, source, columns, 1);
    let (matrix, pool) = (packed.matrix(), Pool::new(1));
    let x = activations(values, columns);
    let expected = product(Kernels::reference(), &pool, &matrix, &x);
    for kernels in Kernels::available() {
        let found = product(kernels, &pool, &matrix, &x);
        assert!(
            same(&found, &expected),
            "{kernels:?} {tensor_type:?}, {} rows, {columns} columns, {} tokens",
            matrix.rows(),
            x.tokens()
        );
    }
}

/// Whether the floats are the same; NaN has many bit patterns and they are not told apart.
fn same(a: &[u32], b: &[u32]) -> bool {
    let number = |bits: &u32| if f32::from_bits(*bits).is_nan() { u32::MAX } else { *bits };
    a.iter().map(number).eq(b.iter().map(number))
}

#[test]
fn every_kernel_agrees_with_the_reference_to_the_bit() {
    for tensor_type in TensorType::ALL {
        for rows in 1..=40 {
            let columns = tensor_type.block_len() * (1 + rows % 7);
            let source = file_rows(tensor_type, rows, columns, &mut Noise::new(rows as u64));
            check(tensor_type, &source, &vectors(1 + rows % 9, columns), columns);
        }
    }
}

#[test]
fn the_reference_is_near_the_product_of_the_unpacked_rows() {
    for tensor_type in TensorType::ALL {
        let columns = 512;
        let source = file_rows(tensor_type, 20, columns, &mut Noise::new(3));
        let packed = Packed::new(tensor_type, &source, columns, 1);
        let (matrix, values, kernels) =
            (packed.matrix(), vectors(1, columns), Kernels::reference());
        let found = product(kernels, &Pool::new(1), &matrix, &activations(&values, columns));
        let mut row = vec![0.0; columns];
        for (index, found) in found.iter().enumerate() {
            kernels.row(&matrix, index, &mut row);
            let products = row.iter().zip(&values).map(|(w, x)| f64::from(w * x));
            let (sum, size) = products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()));
            let error = (f64::from(f32::from_bits(*found)) - sum).abs() / size;
            assert!(error < 2e-3, "{tensor_type:?}, row {index}: {error}");
        }
    }
}

#[test]
fn shards_and_threads_do_not_change_a_bit() {
    for tensor_type in TensorType::ALL {
        let columns = 256;
        let source = file_rows(tensor_type, 120, columns, &mut Noise::new(4));
        let x = activations(&vectors(3, columns), columns);
        let whole = Packed::new(tensor_type, &source, columns, 1);
        let kernels = Kernels::detect();
        let expected = product(kernels, &Pool::new(1), &whole.matrix(), &x);
        for threads in 1..=3 {
            let pool = Pool::new(threads);
            for shards in 1..=4 {
                let packed = Packed::new(tensor_type, &source, columns, shards);
                let found = product(kernels, &pool, &packed.matrix(), &x);
                assert_eq!(found, expected, "{tensor_type:?}, {threads} threads, {shards} shards");
            }
        }
    }
}

#[test]
fn a_token_is_the_same_alone_and_in_a_batch() {
    let pool = Pool::new(1);
    for tensor_type in TensorType::ALL {
        let columns = 256;
        let source = file_rows(tensor_type, 21, columns, &mut Noise::new(5));
        let packed = Packed::new(tensor_type, &source, columns, 1);
        let (matrix, values) = (packed.matrix(), vectors(9, columns));
        for kernels in Kernels::available() {
            let batch = product(kernels, &pool, &matrix, &activations(&values, columns));
            for (token, values) in values.chunks(columns).enumerate() {
                let alone = product(kernels, &pool, &matrix, &activations(values, columns));
                assert_eq!(batch[token * 21..][..21], alone, "{kernels:?} {tensor_type:?}");
            }
        }
    }
}

#[test]
fn several_products_of_one_region_are_those_of_several_regions() {
    let columns = 256;
    let kernels = Kernels::detect();
    let pool = Pool::new(2);
    let x = activations(&vectors(2, columns), columns);
    let types = [TensorType::Q5_0, TensorType::Q8_0, TensorType::Q6_K];
    let packed = [40, 16, 3].into_iter().zip(types).map(|(rows, tensor_type)| {
        let source = file_rows(tensor_type, rows, columns, &mut Noise::new(6));
        Packed::new(tensor_type, &source, columns, 2)
    });
    let packed: Vec<_> = packed.collect();
    let matrices: Vec<_> = packed.iter().map(Packed::matrix).collect();
    let mut outputs: Vec<_> = matrices.iter().map(|m| vec![0.0; 2 * m.rows()]).collect();
    let pairs = matrices.iter().zip(&mut outputs);
    let mut products: Vec<_> = pairs.map(|(matrix, output)| Product { matrix, output }).collect();
    kernels.multiply(&pool, &x, &mut products);
    for (matrix, output) in matrices.iter().zip(outputs) {
        let output: Vec<_> = output.iter().map(|v| v.to_bits()).collect();
        assert_eq!(output, product(kernels, &pool, matrix, &x), "{:?}", matrix.tensor_type());
    }
}

#[test]
fn extreme_blocks_agree_with_the_reference() {
    let columns = 256;
    for tensor_type in TensorType::ALL {
        // All quants and factors least or greatest; scales zero, negative, largest, infinite.
        for (fill, scale) in
            [(0, 0x3c00), (0xff, 0x3c00), (0xff, 0xbc00), (0x80, 0), (0xff, 0x7bff), (0x7f, 0x7c00)]
        {
            let mut source = vec![fill; tensor_type.row_bytes(columns).unwrap() * 17];
            for block in source.chunks_mut(tensor_type.block_bytes()) {
                let at = if tensor_type == TensorType::Q6_K { 208 } else { 0 };
                block[at..at + 2].copy_from_slice(&u16::to_le_bytes(scale));
            }
            for value in [1.0, -1.0, 1e30, 1e-40, 0.0] {
                check(tensor_type, &source, &vec![value; 5 * columns], columns);
            }
        }
    }
}

#[test]
fn an_input_that_is_not_finite_makes_the_output_nan() {
    for tensor_type in TensorType::ALL {
        let columns = tensor_type.block_len() * 2;
        let source = file_rows(tensor_type, 16, columns, &mut Noise::new(8));
        for value in [f32::NAN, f32::INFINITY] {
            let mut values = vectors(2, columns);
            values[columns + 1] = value;
            check(tensor_type, &source, &values, columns);
            let packed = Packed::new(tensor_type, &source, columns, 1);
            let x = activations(&values, columns);
            let found = product(Kernels::detect(), &Pool::new(1), &packed.matrix(), &x);
            assert!(found[..16].iter().all(|v| f32::from_bits(*v).is_finite()));
            assert!(found[16..].iter().all(|v| !f32::from_bits(*v).is_finite()));
        }
    }
}

#[test]
fn columns_that_are_no_whole_number_of_sums_are_added_up() {
    for tensor_type in [TensorType::F32, TensorType::F16, TensorType::BF16] {
        for columns in [1, 2, 3, 5, 100] {
            let source = file_rows(tensor_type, 18, columns, &mut Noise::new(9));
            check(tensor_type, &source, &vectors(5, columns), columns);
        }
    }
}

#[test]
fn a_row_is_the_same_in_whichever_shard() {
    let source = file_rows(TensorType::Q5_0, 70, 64, &mut Noise::new(11));
    let [whole, cut] = [1, 3].map(|n| Packed::new(TensorType::Q5_0, &source, 64, n));
    assert_eq!(cut.shards.len(), 3);
    let (mut found, mut expected) = (vec![0.0; 64], vec![0.0; 64]);
    for row in 0..70 {
        Kernels::detect().row(&cut.matrix(), row, &mut found);
        Kernels::detect().row(&whole.matrix(), row, &mut expected);
        assert_eq!(found, expected, "row {row}");
        layout::unpack_row(TensorType::Q5_0, group(&whole, row), row % GROUP, &mut expected);
        assert_eq!(found, expected, "row {row}");
    }
}

/// The packed group of a row of a matrix in one shard.
fn group(packed: &Packed, row: usize) -> &[u8] {
    let bytes = layout::group_bytes(packed.tensor_type, packed.columns).unwrap();
    &packed.shards[0].1[row / GROUP * bytes..][..bytes]
}

#[test]
#[should_panic(expected = "the matrix has this row")]
fn a_row_of_the_padding_does_not_exist() {
    let source = file_rows(TensorType::Q8_0, 3, 32, &mut Noise::new(12));
    let packed = Packed::new(TensorType::Q8_0, &source, 32, 1);
    Kernels::reference().row(&packed.matrix(), 3, &mut [0.0; 32]);
}

#[test]
fn no_vectors_make_no_output() {
    let source = file_rows(TensorType::Q8_0, 16, 32, &mut Noise::new(10));
    let packed = Packed::new(TensorType::Q8_0, &source, 32, 1);
    let x = activations(&[], 32);
    assert!(product(Kernels::detect(), &Pool::new(1), &packed.matrix(), &x).is_empty());
}

#[test]
fn unknown_kernels_are_an_error_that_lists_the_known() {
    let error = Kernels::named("sse9").unwrap_err().to_string();
    assert!(error.contains("PANGEA_KERNELS") && error.contains("reference"), "{error}");
    assert_eq!(Kernels::named("reference").unwrap().name(), "reference");
}

#[test]
fn inputs_are_rounded_as_ggml_rounds_them() {
    // The greatest of each 32 columns is a 127th more than that of the 32 before.
    let mut values = [0.25_f32; 256];
    for (part, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        values[3] = -1.0 - part as f32 / 127.0;
    }
    let x = activations(&values, 256);
    for (part, short) in x.quantized(0, 32).iter().enumerate() {
        let step = (127.0 + part as f32) / 127.0 / 127.0;
        assert_eq!(short.scale, f16::from_f32(step).to_f32());
        assert_eq!(short.quants[0][3], -127);
    }
    for (part, long) in x.quantized(0, 256).iter().enumerate() {
        assert_eq!(long.scale, 134.0 / 127.0 / 127.0);
        let expected = (-127.0 - part as f32) / 134.0 * 127.0;
        assert_eq!(f32::from(long.quants[0][3]), expected.round());
    }
}
