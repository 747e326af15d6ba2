//! Matrix-vector products beside their bound, reading the same bytes, by type and threads.

use std::time::Duration;

use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use pangea_llm::{
    kernels::{Activations, Kernels, Product},
    layout::{self, GROUP},
    matrix::{Matrix, Shard},
    pool::Pool,
    tensor_type::TensorType,
};

/// More than any cache holds.
const BYTES: usize = 128 << 20;
const ROWS: usize = 4864;
const COLUMNS: usize = 1024;

fn main() {
    // Small bytes: as F16 scales they are ordinary numbers.
    let weights: Vec<u8> = (0..BYTES).map(|index| (index * 41 % 61).to_le_bytes()[0]).collect();
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    for threads in 1..=2 {
        let pool = Pool::new(threads);
        let mut group = criterion.benchmark_group(format!("kernels/{threads} threads"));
        read(&mut group, &pool, &weights);
        for tensor_type in TensorType::ALL {
            multiply(&mut group, &pool, &weights, tensor_type);
        }
        group.finish();
    }
    criterion.final_summary();
}

/// The bound: how fast the bytes can be read at all.
fn read(group: &mut BenchmarkGroup<'_, WallTime>, pool: &Pool, weights: &[u8]) {
    group.throughput(Throughput::Bytes(BYTES as u64));
    group.bench_function("read", |bencher| bencher.iter(|| pangea_benches::read(pool, &[weights])));
}

/// As many matrices as there are weights for, each multiplied with one vector.
fn multiply(
    group: &mut BenchmarkGroup<'_, WallTime>,
    pool: &Pool,
    weights: &[u8],
    tensor_type: TensorType,
) {
    let kernels = Kernels::from_env().expect("PANGEA_KERNELS names kernels");
    let bytes = layout::packed_bytes(tensor_type, ROWS, COLUMNS).expect("whole blocks");
    let matrices: Vec<_> = weights
        .chunks_exact(bytes)
        .map(|bytes| Shard { first_row: 0, rows: ROWS, bytes })
        .map(|shard| Matrix::new(tensor_type, COLUMNS, vec![shard]))
        .collect();
    let mut x = Activations::new();
    x.set(&[0.5; COLUMNS], COLUMNS);
    let mut output = vec![0.0; ROWS.next_multiple_of(GROUP)];
    group.throughput(Throughput::Bytes((matrices.len() * bytes) as u64));
    group.bench_function(tensor_type.name(), |bencher| {
        bencher.iter(|| {
            for matrix in &matrices {
                let output = &mut output[..ROWS];
                kernels.multiply(pool, &x, &mut [Product { matrix, output }]);
            }
        });
    });
}
