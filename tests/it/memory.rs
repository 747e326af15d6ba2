//! One memory of several nodes, whichever way they reach each other.

use pangea_tests::Path;

use crate::job::{node, run, succeeds};

#[test]
fn atomics_of_all_nodes_are_counted() {
    succeeds("atomics", Path::Shm, &[1, 2, 3]);
    succeeds("atomics", Path::Tcp, &[3]);
    succeeds("atomics", Path::Thunderbolt, &[2]);
    succeeds("atomics", Path::Lossy, &[2]);
}

#[test]
fn nobody_is_behind_a_barrier() {
    succeeds("barriers", Path::Shm, &[1, 2, 3, 5, 8]);
    succeeds("barriers", Path::Tcp, &[2, 5]);
    succeeds("barriers", Path::Thunderbolt, &[3]);
}

#[test]
fn bulk_transfers_arrive_byte_for_byte() {
    succeeds("bulk", Path::Shm, &[1, 2]);
    succeeds("bulk", Path::Tcp, &[2, 4]);
    succeeds("bulk", Path::Thunderbolt, &[2, 4]);
    succeeds("bulk", Path::Lossy, &[4]);
}

#[test]
fn a_full_heap_says_what_is_missing() {
    succeeds("exhaust", Path::Shm, &[1, 2, 3]);
    succeeds("exhaust", Path::Tcp, &[3]);
    succeeds("exhaust", Path::Thunderbolt, &[2]);
}

#[test]
fn what_was_filled_in_place_is_published() {
    succeeds("filled", Path::Shm, &[1, 2, 3]);
    succeeds("filled", Path::Tcp, &[2, 3]);
    succeeds("filled", Path::Thunderbolt, &[2]);
    succeeds("filled", Path::Lossy, &[2]);
}

#[test]
fn frozen_vectors_are_slices_everywhere() {
    succeeds("frozen", Path::Shm, &[1, 2, 4]);
    succeeds("frozen", Path::Tcp, &[4]);
    succeeds("frozen", Path::Thunderbolt, &[3]);
    succeeds("frozen", Path::Lossy, &[3]);
}

#[test]
fn vectors_beyond_4_gib_work() {
    // Heaps that a machine of 8 GiB may have; little of them is touched.
    for (path, nodes) in [(Path::Shm, 2), (Path::Shm, 3), (Path::Tcp, 2), (Path::Thunderbolt, 2)] {
        let outcome = run(path, nodes, || {
            let mut command = node("huge");
            command.env("PANGEA_HEAP", "6G");
            command
        });
        assert!(outcome.failed.is_none(), "{path:?}, {nodes} nodes: {outcome:?}");
    }
}

#[test]
fn names_mean_one_thing() {
    succeeds("names", Path::Shm, &[1, 2, 5]);
    succeeds("names", Path::Tcp, &[5]);
    succeeds("names", Path::Thunderbolt, &[3]);
}

#[test]
fn dropped_memory_is_used_again() {
    succeeds("reuse", Path::Shm, &[1, 2]);
    succeeds("reuse", Path::Tcp, &[2]);
}

#[test]
fn a_spread_vector_is_one_vector() {
    succeeds("spread", Path::Shm, &[1, 2, 3, 4, 7]);
    succeeds("spread", Path::Tcp, &[2, 7]);
    succeeds("spread", Path::Thunderbolt, &[4]);
}
