//! How a payload is cut into packets.

use super::*;

/// Takes what it is offered, `taken_max` bytes at a time, and keeps the heads.
#[derive(Debug)]
struct Taker {
    taken_max: usize,
    heads: Vec<Head>,
}

impl Outlet for Taker {
    fn push(
        &mut self,
        head: &[u8; HEAD_LEN],
        payload: Source,
        already: usize,
    ) -> io::Result<usize> {
        let taken = (HEAD_LEN + payload.len()).min(already + self.taken_max);
        if taken == HEAD_LEN + payload.len() {
            self.heads.push(Head::decode(head).unwrap());
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn close(&mut self) {}
}

/// Checks that the packets of `len` bytes from `offset` cover them once.
fn check(memory: &Arc<Mapping>, len: u64, len_max: usize, taken_max: usize) {
    let head = Head { offset: 5, request: 9, ..Head::new(Kind::Write) };
    let mut parcel = Parcel::new(head, Payload::Mapped(memory.clone(), 0, len), None);
    let mut taker = Taker { taken_max, heads: Vec::new() };
    while !taker.heads.last().is_some_and(|head| head.is_last) {
        assert!(len == 0 || !parcel.is_sent(), "{len} bytes are not sent before the last of them");
        parcel.push(&mut taker, len_max).unwrap();
    }
    assert!(parcel.is_sent());
    let mut next = 5;
    for head in &taker.heads {
        assert_eq!((head.kind, head.request, head.offset), (Kind::Write, 9, next), "{len} bytes");
        assert!(head.payload_len() <= len_max);
        next += u64::from(head.len);
        assert_eq!(head.is_last, next == 5 + len, "the last is flagged, and only that");
    }
    assert_eq!(next, 5 + len);
    let count = usize::try_from(len.div_ceil(len_max as u64).max(1)).unwrap();
    assert_eq!(taker.heads.len(), count, "{len} bytes are cut into as few packets as can be");
}

#[test]
fn packets_cover_a_payload_once() {
    let memory = Arc::new(Mapping::new(1 << 16).unwrap());
    for len in (0..=3).chain(998..=1002).chain(1999..=2001).chain([3500, 65_536]) {
        for taken_max in [1, 31, 33, 700, usize::MAX / 2] {
            check(&memory, len, 1000, taken_max);
        }
    }
}

#[test]
fn payloads_beyond_32_bits_are_cut_like_others() {
    // Nobody looks at its pages, so that they take no memory.
    let memory = Arc::new(Mapping::new((4 << 30) + (1 << 20)).unwrap());
    for len in [(1 << 31) - 1, 1 << 31, (1 << 31) + 4097, (1 << 32) - 1, 1 << 32, (1 << 32) + 1] {
        check(&memory, len, PAYLOAD_MAX, usize::MAX / 2);
    }
}
