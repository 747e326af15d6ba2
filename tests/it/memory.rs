//! One memory of several nodes.

use crate::job::{node, run, succeeds};

#[test]
fn atomics_of_all_nodes_are_counted() {
    succeeds("atomics", &[1, 2, 3]);
}

#[test]
fn nobody_is_behind_a_barrier() {
    succeeds("barriers", &[1, 2, 3, 5, 8]);
}

#[test]
fn bulk_transfers_arrive_byte_for_byte() {
    succeeds("bulk", &[1, 2]);
}

#[test]
fn a_full_heap_says_what_is_missing() {
    succeeds("exhaust", &[1, 2, 3]);
}

#[test]
fn frozen_vectors_are_slices_everywhere() {
    succeeds("frozen", &[1, 2, 4]);
}

#[test]
fn vectors_beyond_4_gib_work() {
    // Heaps that a machine of 8 GiB may have; little of them is touched.
    for nodes in [2, 3] {
        let outcome = run(nodes, || {
            let mut command = node("huge");
            command.env("PANGEA_HEAP", "6G");
            command
        });
        assert!(outcome.failed.is_none(), "{nodes} nodes: {outcome:?}");
    }
}

#[test]
fn names_mean_one_thing() {
    succeeds("names", &[1, 2, 5]);
}

#[test]
fn dropped_memory_is_used_again() {
    succeeds("reuse", &[1, 2]);
}

#[test]
fn a_spread_vector_is_one_vector() {
    succeeds("spread", &[1, 2, 3, 4, 7]);
}
