//! Reads and writes: all of the bytes, and none but those.

use std::thread;

use super::{
    cluster::Cluster,
    lent::{CANARY, pattern},
    node::at,
    providers::Maker,
};
use crate::sim::Random;

/// Bytes around a range that must stay as they are.
const AROUND: usize = 64;

pub(super) fn a_write_that_is_complete_is_seen_by_all(make: Maker) {
    let cluster = Cluster::new(make, 3, 1 << 16);
    for round in 0..50_u64 {
        let (bytes, offset) = (pattern(round, 300), round * 301);
        cluster[0].write(at(1, offset), &bytes);
        assert!(cluster[1].own(offset, 300) == bytes, "the target has them");
        for node in 0..3 {
            assert!(cluster[node].read(at(1, offset), 300) == bytes, "and so sees node {node}");
        }
    }
}

pub(super) fn bytes_of_every_length_keep_their_neighbours(make: Maker) {
    let cluster = Cluster::new(make, 2, 2 << 20);
    let near = |len: usize| [len - 1, len, len + 1];
    let lengths = [0, 1, 7, 8, 63, 64, 65].into_iter().chain(4031..=4097);
    let lengths = lengths.chain([8 << 10, 64 << 10, 256 << 10].into_iter().flat_map(near));
    for (round, len) in (0_u64..).zip(lengths.chain([(1 << 20) + 3])) {
        let (bytes, offset) = (pattern(round, len), 1000 + round % 9);
        let before = offset - AROUND as u64;
        cluster[1].memory.write(before, &vec![CANARY; len + 2 * AROUND]).unwrap();
        cluster[0].write(at(1, offset), &bytes);
        assert!(cluster[0].read(at(1, offset), len) == bytes, "{len} bytes there and back");
        let canary = [CANARY; AROUND];
        let expected = [&canary[..], &bytes[..], &canary[..]].concat();
        assert!(cluster[1].own(before, expected.len()) == expected, "{len} bytes, no more");
    }
}

pub(super) fn offsets_beyond_4_gib_are_reached(make: Maker) {
    // Its pages take memory when they are first written.
    let len = (4 << 30) + (1 << 20);
    let cluster = Cluster::new(make, 2, len);
    for offset in [0, (4 << 30) - 500, (4 << 30) + 12_345, len as u64 - 1000] {
        let bytes = pattern(offset, 1000);
        cluster[0].write(at(1, offset), &bytes);
        assert!(cluster[1].own(offset, 1000) == bytes, "{offset}");
        assert!(cluster[0].read(at(1, offset), 1000) == bytes, "{offset}");
    }
    assert!(cluster[1].own(0, 1000) == pattern(0, 1000), "no offset has lost its upper half");
}

pub(super) fn transfers_in_both_directions_are_whole(make: Maker) {
    const COUNT: u64 = 500;
    const SLOT: u64 = 20_000;
    // One in fifty takes several packets; the others have their slots.
    let len = |number: u64| match number % 50 {
        49 => 600_000,
        _ => Random::new(number).index(if number.is_multiple_of(2) { 200 } else { 20_000 }),
    };
    let place = |number: u64| match number % 50 {
        49 => COUNT * SLOT + number / 50 * 600_000,
        _ => number * SLOT,
    };
    let region_len = usize::try_from(COUNT * SLOT + COUNT / 50 * 600_000).unwrap();
    let cluster = Cluster::new(make, 2, region_len);
    thread::scope(|scope| {
        for here in 0..2_u16 {
            let (node, there) = (&cluster[usize::from(here)], 1 - here);
            scope.spawn(move || {
                let bytes = |number| pattern(u64::from(there) << 32 | number, len(number));
                let target = |number| at(there, place(number));
                let write = |number| node.start_write(target(number), &bytes(number));
                let written: Vec<_> = (0..COUNT).map(write).collect();
                let read = |number| node.start_read(target(number), len(number));
                let read: Vec<_> = (0..COUNT).map(read).collect();
                written.into_iter().for_each(|write| _ = write.finish().unwrap());
                for (number, pending) in (0..).zip(read) {
                    assert!(pending.bytes() == bytes(number), "{number} to node {there}");
                }
            });
        }
    });
}
