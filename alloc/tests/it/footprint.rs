//! What the allocator needs for itself grows with what is allocated, not with the capacity.

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;

use pangea_alloc::{BLOCK_BYTES, Heap, Layout, MAX_CAPACITY, Result};

thread_local! {
    /// Bytes allocated less bytes freed by this thread; other tests run in others.
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, counting.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: every call is passed on to the system's allocator unchanged, and so is its result.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        BYTES.set(BYTES.get() + memory.size().cast_signed());
        // SAFETY: the caller upholds the conditions of `alloc`, which are the same.
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, memory: Memory) {
        BYTES.set(BYTES.get() - memory.size().cast_signed());
        // SAFETY: `pointer` came from `alloc` above with the same layout, says the caller.
        unsafe { System.dealloc(pointer, memory) }
    }
}

/// The bytes that `work` leaves allocated in what it returns.
fn kept<T>(work: impl FnOnce() -> T) -> (T, isize) {
    let before = BYTES.get();
    let result = work();
    (result, BYTES.get() - before)
}

#[test]
fn a_sparse_heap_of_any_capacity_costs_little() -> Result<()> {
    let (heap, empty) = kept(|| Heap::new(MAX_CAPACITY, 0));
    let heap = heap?;
    assert!(empty < 8 << 10, "{empty} bytes for an empty heap");

    let far_apart = Layout::new(BLOCK_BYTES * 4, MAX_CAPACITY >> 10)?;
    let (result, spread) = kept(|| (0..1024).try_for_each(|_| heap.allocate(far_apart).map(drop)));
    result?;
    assert!(spread < 256 << 10, "{spread} bytes for 1024 allocations all over the heap");
    Ok(())
}

#[test]
fn small_allocations_cost_a_few_bytes_each() -> Result<()> {
    let heap = Heap::new(1 << 40, 0)?;
    let small = Layout::new(64, 64)?;
    let allocate = || (0..100_000).map(|_| heap.allocate(small)).collect::<Result<Vec<_>>>();
    let (offsets, bytes) = kept(allocate);
    let offsets = offsets?;
    let own = (offsets.capacity() * size_of::<u64>()).cast_signed();
    assert!(bytes - own < 4 * 100_000, "{} bytes for 100000 allocations", bytes - own);
    Ok(())
}
