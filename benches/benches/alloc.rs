//! Allocating and freeing in a heap, beside the same in the system's allocator.

#![allow(missing_docs, reason = "criterion makes a public function")]

use std::{
    alloc::{alloc, dealloc},
    hint::black_box,
};

use criterion::{Criterion, criterion_group, criterion_main};
use pangea_alloc::{Heap, Layout};

fn allocate_and_free(criterion: &mut Criterion) {
    for size in [64, 4096, 1 << 20] {
        let mut group = criterion.benchmark_group(format!("allocate and free {size} bytes"));
        let heap = Heap::new(1 << 30, 0).expect("a heap");
        let layout = Layout::new(size, 64).expect("a layout");
        group.bench_function("heap", |bencher| {
            bencher.iter(|| {
                let offset = heap.allocate(black_box(layout)).expect("room");
                heap.free(offset).expect("allocated above");
            });
        });
        let size = usize::try_from(size).expect("a size");
        let layout = std::alloc::Layout::from_size_align(size, 64).expect("a layout");
        group.bench_function("system", |bencher| {
            bencher.iter(|| {
                // SAFETY: the layout has a size.
                let memory = unsafe { alloc(black_box(layout)) };
                // SAFETY: allocated above with this layout.
                unsafe { dealloc(black_box(memory), layout) };
            });
        });
        group.finish();
    }
}

criterion_group!(benches, allocate_and_free);
criterion_main!(benches);
