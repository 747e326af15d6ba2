//! Requests that cannot be: a typed error, nothing is changed, and the next is carried out.

use super::{
    cluster::Cluster,
    lent::{CANARY, pattern},
    node::{Node, at},
    providers::Maker,
};
use crate::{Error, MESSAGE_LEN_MAX, NodeId, Op, Region, RemoteAddr, page_size};

/// Two nodes, whose regions are full of canaries.
fn cluster(make: Maker) -> Cluster {
    let cluster = Cluster::new(make, 2, page_size());
    for node in 0..2 {
        cluster[node].memory.write(0, &vec![CANARY; page_size()]).unwrap();
    }
    cluster
}

/// Checks that nothing has changed, and that the next request is carried out.
fn check(cluster: &Cluster) {
    for node in 0..2 {
        assert!(cluster[node].own(0, page_size()).iter().all(|byte| *byte == CANARY));
    }
    cluster[0].write(at(1, 99), &pattern(1, 10));
    assert_eq!(cluster[0].read(at(1, 99), 10), pattern(1, 10));
    assert_eq!(cluster[0].run(Op::FetchAdd { target: at(1, 8), addend: 0 }).unwrap() >> 56, 0xC5);
}

fn words(target: RemoteAddr) -> [Op; 4] {
    [
        Op::FetchAdd { target, addend: 1 },
        Op::Swap { target, value: 1 },
        Op::CompareSwap { target, expected: u64::from_le_bytes([CANARY; 8]), desired: 1 },
        Op::Signal { target, value: 1 },
    ]
}

/// How everything ends that can be done to `len` bytes, or to a word, at `at`.
fn refusals(node: &Node, at: RemoteAddr, len: usize) -> Vec<Error> {
    let words = words(at).map(|op| node.run(op));
    let read = node.start_read(at, len).finish();
    let write = node.start_write(at, &pattern(7, len)).finish();
    words.into_iter().chain([read, write]).map(Result::unwrap_err).collect()
}

pub(super) fn words_off_their_place_are_refused(make: Maker) {
    let cluster = cluster(make);
    for node in 0..2 {
        for offset in (1..8).chain([u64::MAX - 3, u64::MAX]) {
            for op in words(at(node, offset)) {
                let error = cluster[0].run(op).unwrap_err();
                let is_right = matches!(error, Error::Unaligned { offset: o, .. } if o == offset);
                assert!(is_right, "{op:?}: {error}");
            }
        }
    }
    check(&cluster);
}

pub(super) fn ranges_outside_are_refused(make: Maker) {
    let cluster = cluster(make);
    let end = page_size() as u64;
    for node in 0..2 {
        for offset in [end, 1 << 32, 1 << 48, 1 << 63, u64::MAX - 7] {
            for error in refusals(&cluster[0], at(node, offset), 16) {
                let is_right = matches!(error, Error::OutOfBounds { offset: o, capacity, .. }
                    if o == offset && capacity == end);
                assert!(is_right, "{offset}: {error}");
            }
        }
        // Ranges that begin inside, and such whose end is beyond all numbers.
        for offset in [end - 15, u64::MAX - 3, u64::MAX] {
            let ended = [
                cluster[0].start_read(at(node, offset), 16).finish(),
                cluster[0].start_write(at(node, offset), &[1; 16]).finish(),
            ];
            for error in ended.map(Result::unwrap_err) {
                assert!(matches!(error, Error::OutOfBounds { len: 16, .. }), "{offset}: {error}");
            }
        }
        cluster[0].start_read(at(node, end), 0).finish().unwrap();
    }
    let long = cluster[0].start_send(1, &[0; MESSAGE_LEN_MAX + 1]).finish().unwrap_err();
    assert!(matches!(long, Error::OutOfBounds { .. }), "{long}");
    check(&cluster);
}

pub(super) fn what_is_unknown_is_refused(make: Maker) {
    let cluster = cluster(make);
    for region in [Region(2), Region(77), Region(u32::MAX)] {
        for node in 0..2 {
            let unknown = RemoteAddr { region, ..at(node, 0) };
            for error in refusals(&cluster[0], unknown, 16) {
                let is_right = matches!(error, Error::UnknownRegion { node: n, region: r }
                    if n == NodeId::new(node) && r == region.0);
                assert!(is_right, "{region:?}: {error}");
            }
        }
    }
    for node in [2, 9, u16::MAX] {
        refusals(&cluster[0], at(node, 0), 16);
        cluster[0].start_send(node, b"nobody").finish().unwrap_err();
    }
    check(&cluster);
}
