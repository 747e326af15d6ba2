//! What a reliable connection promises.

use std::{os::fd::AsRawFd, ptr::NonNull, slice, sync::Arc};

use pangea_rdma::{
    Mapping, Op, Region, RemoteAddr,
    verbs::{
        Resource,
        rc::{Event, Failure},
    },
};

use crate::fixture::{Two, at, content, pattern, read, send, write};

/// Around every limit: a word, what fits a request, what is copied, a frame, a cell, several.
const LENS: [usize; 18] = [
    0,
    1,
    7,
    8,
    9,
    128,
    129,
    512,
    513,
    4095,
    4096,
    4097,
    16383,
    16384,
    16385,
    65536,
    100_003,
    1 << 20,
];

#[test]
fn bytes_of_every_length_arrive() {
    let Some(mut two) = Two::new(2 << 20) else { return };
    for (seed, len) in LENS.into_iter().enumerate() {
        let offset = 4001 + seed as u64;
        let bytes = pattern(seed, len);
        assert_eq!(two.run(0, write(&bytes, offset)), Ok(0));
        assert_eq!(content(&two.memories[1], offset, len), bytes, "{len} bytes written");
        let mut found = vec![0; len];
        assert_eq!(two.run(0, read(offset, &mut found)), Ok(0));
        assert_eq!(found, bytes, "{len} bytes read");
    }
    assert_eq!(content(&two.memories[1], 0, 4001), vec![0; 4001], "nothing else is written");
}

#[test]
fn registered_memory_is_read_and_written_in_place() {
    let Some(mut two) = Two::new(2 << 20) else { return };
    let local = Arc::new(Mapping::new(2 << 20).unwrap());
    two.registries[0].keep(&local);
    for (seed, len) in LENS.into_iter().enumerate() {
        let part = NonNull::slice_from_raw_parts(local.range(5, len as u64).unwrap(), len);
        let bytes = pattern(seed, len);
        local.write(5, &bytes).unwrap();
        two.run(0, Op::Write { source: part, target: at(77) }).unwrap();
        assert_eq!(content(&two.memories[1], 77, len), bytes, "{len} bytes written");
        local.clear(0, 2 << 20).unwrap();
        two.run(0, Op::Read { source: at(77), target: part }).unwrap();
        assert_eq!(content(&local, 5, len), bytes, "{len} bytes read");
    }
}

#[test]
fn transfers_of_mixed_lengths_both_ways_keep_every_byte() {
    const COUNT: usize = 500;
    const STRIDE: usize = 65_521;
    let Some(mut two) = Two::new(32 << 20) else { return };
    let lens: Vec<_> = (0..COUNT).map(|seed| LENS[seed * 7 % LENS.len()].min(STRIDE)).collect();
    let sources = [0, COUNT].map(|base| {
        lens.iter().enumerate().map(|(seed, &len)| pattern(base + seed, len)).collect::<Vec<_>>()
    });
    let place = |index: usize| (index * STRIDE) as u64;
    // Everything is under way at once, in either direction; small among large.
    let mut tokens = Vec::new();
    for index in 0..COUNT {
        for (end, source) in sources.iter().enumerate() {
            tokens.push(two.post(end, write(&source[index], place(index))));
        }
    }
    tokens.into_iter().for_each(|token| assert_eq!(two.wait(token), Ok(0)));
    let mut found = sources.clone();
    let mut tokens = Vec::new();
    for index in 0..COUNT {
        for (end, found) in found.iter_mut().enumerate() {
            found[index].fill(0);
            tokens.push(two.post(end, read(place(index), &mut found[index])));
        }
    }
    tokens.into_iter().for_each(|token| assert_eq!(two.wait(token), Ok(0)));
    assert!(found == sources);
}

#[test]
fn an_operation_crosses_slabs() {
    let Some(mut two) = Two::new(160 << 20) else { return };
    // Slabs of 64 MiB, wherever they begin: both ends of one are inside.
    for offset in (0..8).map(|slice| slice * (20 << 20) - slice) {
        let bytes = pattern(1, 3);
        two.run(0, write(&bytes, offset)).unwrap();
        assert_eq!(content(&two.memories[1], offset, 3), bytes);
    }
    let bytes = pattern(2, 70 << 20);
    two.memories[1].write(11, &bytes).unwrap();
    let mut found = vec![0; bytes.len()];
    two.run(0, read(11, &mut found)).unwrap();
    assert!(found == bytes, "70 MiB in one read");
}

#[test]
fn atomics_tell_the_word_before() {
    let Some(mut two) = Two::new(4096) else { return };
    let target = at(64);
    assert_eq!(two.run(0, Op::FetchAdd { target, addend: 5 }), Ok(0));
    assert_eq!(two.run(0, Op::FetchAdd { target, addend: u64::MAX }), Ok(5));
    let exchange = |expected, desired| Op::CompareSwap { target, expected, desired };
    assert_eq!(two.run(0, exchange(5, 9)), Ok(4));
    assert_eq!(two.run(0, exchange(4, 9)), Ok(4));
    assert_eq!(two.run(0, Op::Swap { target, value: 1 << 63 }), Ok(9));
    assert_eq!(two.run(0, Op::Swap { target, value: 2 }), Ok(1 << 63));
    assert_eq!(content(&two.memories[1], 64, 8), 2_u64.to_ne_bytes());
}

#[test]
fn additions_are_neither_lost_nor_done_twice() {
    let Some(mut two) = Two::new(4096) else { return };
    let tokens: Vec<_> =
        (0..2000).map(|_| two.post(0, Op::FetchAdd { target: at(8), addend: 1 })).collect();
    let mut before: Vec<u64> = tokens.into_iter().map(|token| two.wait(token).unwrap()).collect();
    before.sort_unstable();
    assert!(before.into_iter().eq(0..2000));
}

#[test]
fn messages_arrive_in_order_at_whoever_is_slow() {
    let Some(mut two) = Two::new(4096) else { return };
    let lens = [0, 1, 8, 56, 128, 129, 1000, 4096];
    let count = 1000;
    let messages: Vec<Vec<u8>> =
        (0..count).map(|index| pattern(index, lens[index % lens.len()])).collect();
    for (index, message) in messages.iter().enumerate() {
        two.post(0, send(message));
        two.post(1, send(message));
        // One end looks seldom: the other must wait for it.
        two.poll_end(0);
        if index % 100 == 0 {
            two.poll_end(1);
        }
    }
    two.poll_until(|two| two.messages.iter().all(|messages| messages.len() == count));
    assert!(two.messages[0] == messages);
    assert!(two.messages[1] == messages);
}

#[test]
fn a_queue_is_never_overrun() {
    let Some(mut two) = Two::new(1 << 20) else { return };
    let large = pattern(5, 64 << 10);
    let tokens: Vec<_> = (0..1500_u64)
        .map(|index| match index % 3 {
            0 => two.post(0, write(&large[..8], 8 * index)),
            1 => two.post(0, write(&large, 65536)),
            _ => two.post(0, Op::FetchAdd { target: at(0), addend: 1 }),
        })
        .collect();
    for token in tokens {
        two.wait(token).unwrap();
    }
    assert_eq!(content(&two.memories[1], 65536, large.len()), large);
    assert_eq!(content(&two.memories[1], 8 * 1497, 8), large[..8]);
    assert_eq!(two.run(0, Op::FetchAdd { target: at(0), addend: 0 }).map(|_| ()), Ok(()));
}

#[test]
fn what_cannot_be_is_refused_and_the_connection_lives() {
    let Some(mut two) = Two::new(8192) else { return };
    let capacity = two.memories[1].len() as u64;
    let mut bytes = [0; 16];
    for offset in [capacity - 15, capacity, u64::MAX - 3, u64::MAX] {
        let result = two.run(0, read(offset, &mut bytes));
        assert_eq!(result, Err(Failure::OutOfBounds { capacity }), "at {offset}");
    }
    let unknown = RemoteAddr { region: Region(99), ..at(0) };
    let result = two.run(0, Op::FetchAdd { target: unknown, addend: 1 });
    assert_eq!(result, Err(Failure::UnknownRegion));
    for offset in 1..8 {
        let result = two.run(0, Op::FetchAdd { target: at(offset), addend: 1 });
        assert_eq!(result, Err(Failure::Unaligned));
    }
    assert_eq!(two.run(0, write(&[7; 16], capacity - 16)), Ok(0));
    assert_eq!(content(&two.memories[1], capacity - 16, 16), [7; 16]);
}

#[test]
fn memory_that_is_cleared_stays_what_the_device_sees() {
    let Some(mut two) = Two::new(1 << 20) else { return };
    assert_eq!(two.run(0, write(&pattern(1, 1 << 20), 0)), Ok(0));
    two.memories[1].clear(0, 1 << 20).unwrap();
    let mut found = vec![1; 1 << 20];
    two.run(0, read(0, &mut found)).unwrap();
    assert!(found == vec![0; 1 << 20], "cleared for the device too");
    two.memories[1].write(500_000, b"written at home").unwrap();
    two.run(0, read(500_000, &mut found[..15])).unwrap();
    assert_eq!(&found[..15], b"written at home");
    two.run(0, write(b"written afar", 4096)).unwrap();
    assert_eq!(content(&two.memories[1], 4096, 12), b"written afar");
}

#[test]
fn a_lost_peer_ends_everything_once() {
    let Some(mut two) = Two::new(1 << 20) else { return };
    // The slab is known, so that the operations below are on their way.
    two.run(0, write(&[1], 0)).unwrap();
    let large = vec![3; 256 << 10];
    let mut tokens: Vec<_> = (0..40).map(|_| two.post(0, write(&large, 0))).collect();
    two.ends[1].abandon();
    tokens.extend((0..40).map(|_| two.post(0, Op::FetchAdd { target: at(0), addend: 1 })));
    let ended: Vec<_> = tokens.into_iter().map(|token| two.wait(token)).collect();
    assert!(ended.iter().any(Result::is_err));
    let first = ended.iter().position(Result::is_err).unwrap();
    assert!(ended[first..].iter().all(|result| matches!(result, Err(Failure::Lost(_)))));
    assert!(two.ends[0].lost().is_some());
    let late = two.run(0, write(&[1], 0));
    assert!(matches!(late, Err(Failure::Lost(_))), "{late:?}");
}

#[test]
fn a_broken_connection_leaves_the_device_nothing_to_touch() {
    let Some(mut two) = Two::new(1 << 20) else { return };
    two.run(0, write(&[1], 0)).unwrap();
    let domain = two.registries[0].domain().clone();
    let left = || domain.port().context().ledger().left(Resource::QueuePair);
    let before = left();
    let mut target = vec![0; 1 << 20];
    let reading = two.post(0, read(0, &mut target));
    two.ends[0].abandon();
    assert_eq!(left(), before + 1, "the pair is destroyed before the memory is given back");
    assert!(matches!(two.wait(reading), Err(Failure::Lost(_))));
    let endpoint = two.ends[1].endpoint();
    two.ends[0].connect(&endpoint).unwrap_err();
}

#[test]
fn a_descriptor_wakes_who_sleeps() {
    let Some(mut two) = Two::new(4096) else { return };
    for round in 0..20 {
        two.ends[1].arm().unwrap();
        two.poll_end(1);
        assert!(
            !is_readable(two.ends[1].descriptor().unwrap().as_raw_fd(), 0),
            "nothing has come yet"
        );
        two.post(0, send(&[round]));
        assert!(is_readable(two.ends[1].descriptor().unwrap().as_raw_fd(), 60_000));
        two.ends[1].disarm();
        let mut came = Vec::new();
        two.ends[1].poll(&mut |event| match event {
            Event::Message(message) => came.extend_from_slice(message),
            Event::Done { .. } => {}
        });
        assert_eq!(came, [round]);
    }
}

fn is_readable(descriptor: i32, timeout_ms: i32) -> bool {
    let mut entry = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives during the call.
    let count = unsafe { libc::poll(slice::from_mut(&mut entry).as_mut_ptr(), 1, timeout_ms) };
    count == 1
}
