use std::{
    io,
    ptr::NonNull,
    sync::{Arc, Mutex, PoisonError},
};

use super::*;
use crate::{
    Error,
    packet::{HEAD_LEN, word},
    stream::Source,
};

/// What went over a link.
type Said = Arc<Mutex<Vec<Head>>>;

/// Takes everything, and keeps the heads, with the words of reads for their lengths.
#[derive(Debug)]
struct Tap(Said);

impl Outlet for Tap {
    fn push(
        &mut self,
        head: &[u8; HEAD_LEN],
        payload: Source,
        already: usize,
    ) -> io::Result<usize> {
        assert_eq!(already, 0);
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut head = Head::decode(head).unwrap();
        if head.kind == Kind::Read {
            let mut bytes = Vec::new();
            payload.copy_to(&mut bytes);
            head.key = word(&bytes, 0);
        }
        said.push(head);
        Ok(HEAD_LEN + payload.len())
    }

    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn close(&mut self) {}
}

/// A peer that is reached over `links` links, and what goes over each.
fn peer(links: usize) -> (Peer, Vec<Said>) {
    let said: Vec<Said> = (0..links).map(|_| Said::default()).collect();
    let taps = said.iter().map(|said| Box::new(Tap(said.clone())) as Box<dyn Outlet>);
    (Peer::new(taps.collect()), said)
}

/// What has gone over a link since it was asked last.
fn take(peer: &mut Peer, said: &Said) -> Vec<Head> {
    peer.send(|_| {});
    std::mem::take(&mut *said.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A read of `len` bytes at 1000; nobody writes to its target.
fn read(len: usize) -> Asked {
    let target = NonNull::slice_from_raw_parts(NonNull::dangling(), len);
    Asked::Read(Reading { key: 0, offset: 1000, target, received: 0, is_arriving: false })
}

fn change(kind: Kind, is_answered: bool) -> Asked {
    Asked::Change { head: Head::new(kind), payload: Payload::words([1]), is_answered }
}

fn ranges(heads: &[Head]) -> Vec<(u64, u64)> {
    heads.iter().map(|head| (head.offset, head.key)).collect()
}

#[test]
fn a_long_read_is_spread_over_all_links_and_ends_once() {
    const PART: u64 = PART_LEN as u64;
    let (mut peer, said) = peer(2);
    peer.post(Token(7), read(3 * PART_LEN + 5));
    let [main, stripe] = [0, 1].map(|link| take(&mut peer, &said[link]));
    assert_eq!(ranges(&main), [(1000, PART), (1000 + 2 * PART, PART)]);
    assert_eq!(ranges(&stripe), [(1000 + PART, PART), (1000 + 3 * PART, 5)]);
    for (link, head) in [(1, stripe[1]), (0, main[0]), (1, stripe[0])] {
        assert!(peer.waiting(1 - link, head.request).is_none(), "the other link knows nothing");
        assert!(peer.waiting(link, head.request).is_some());
        assert!(peer.end(head.request, Ok(0)).is_none());
    }
    let ended = peer.end(main[1].request, Ok(0)).expect("the last part has ended");
    assert!(matches!(ended, (Token(7), Ok(0))));
    assert!(peer.close().is_empty() && peer.wholes.is_empty());
}

#[test]
fn the_longest_read_has_few_parts() {
    let (mut peer, said) = peer(3);
    peer.post(Token(1), read((1 << 30) + 1));
    let parts: usize = said.iter().map(|said| take(&mut peer, said).len()).sum();
    assert_eq!(parts, PARTS_MAX);
}

#[test]
fn short_reads_go_where_least_is_awaited() {
    let (mut peer, said) = peer(3);
    for token in 0..6 {
        peer.post(Token(token), read(100));
    }
    for said in &said {
        assert_eq!(take(&mut peer, said).len(), 2);
    }
}

#[test]
fn a_read_overtakes_nothing_that_was_posted_before() {
    for (kind, is_answered) in [(Kind::FetchAdd, true), (Kind::Signal, false)] {
        let (mut peer, said) = peer(2);
        peer.post(Token(1), change(kind, is_answered));
        peer.post(Token(2), read(2 * PART_LEN));
        let main = take(&mut peer, &said[0]);
        assert_eq!(main.iter().map(|head| head.kind).collect::<Vec<_>>(), [kind, Kind::Read]);
        assert!(take(&mut peer, &said[1]).is_empty());
        // What comes later says that all before it was carried out.
        assert!(peer.end(main[1].request, Ok(0)).is_some());
        peer.post(Token(3), read(2 * PART_LEN));
        assert_eq!(take(&mut peer, &said[1]).len(), 1);
    }
}

#[test]
fn an_answer_over_a_stripe_says_nothing_of_what_was_posted_after_it() {
    let (mut peer, said) = peer(2);
    peer.post(Token(1), read(2 * PART_LEN));
    let stripe = take(&mut peer, &said[1]);
    peer.post(Token(2), change(Kind::Write, true));
    assert!(peer.end(stripe[0].request, Ok(0)).is_none());
    peer.post(Token(3), read(2 * PART_LEN));
    assert!(take(&mut peer, &said[1]).is_empty());
}

#[test]
fn what_was_to_come_over_a_stripe_is_asked_again() {
    let (mut peer, said) = peer(2);
    peer.post(Token(1), read(2 * PART_LEN));
    peer.post(Token(2), read(10));
    let [main, stripe] = [0, 1].map(|link| take(&mut peer, &said[link]));
    peer.receive(stripe[0].request, 5);
    peer.give_up(1);
    assert!(peer.end(stripe[0].request, Ok(0)).is_none(), "it is known by another number now");
    let again = take(&mut peer, &said[0]);
    assert_eq!(ranges(&again), ranges(&stripe));
    let waiting = peer.waiting(0, again[0].request).unwrap();
    assert!(matches!(waiting.awaited, Awaited::Bytes(Reading { received: 0, .. })));
    let ended: Vec<_> = [main, again].concat();
    let ended: Vec<_> = ended.iter().filter_map(|head| peer.end(head.request, Ok(0))).collect();
    assert_eq!(ended.len(), 2);
    peer.post(Token(3), read(4 * PART_LEN));
    assert!(take(&mut peer, &said[1]).is_empty(), "it is not used any more");
}

#[test]
fn a_read_in_parts_fails_once_when_all_have_ended() {
    let (mut peer, said) = peer(2);
    peer.post(Token(1), read(2 * PART_LEN));
    let [main, stripe] = [0, 1].map(|link| take(&mut peer, &said[link]));
    let refused = Err(Error::Unaligned { offset: 1, align: 8 });
    assert!(peer.end(stripe[0].request, refused).is_none(), "the rest is still being written");
    let (_, result) = peer.end(main[0].request, Ok(0)).unwrap();
    assert!(matches!(result, Err(Error::Unaligned { .. })), "{result:?}");
}

#[test]
fn a_lost_peer_ends_every_request_once() {
    let (mut peer, _said) = peer(2);
    peer.post(Token(1), read(5 * PART_LEN));
    peer.post(Token(2), read(5));
    peer.post(Token(3), change(Kind::Swap, true));
    peer.post(Token(4), change(Kind::Signal, false));
    let mut tokens = peer.close();
    tokens.sort_by_key(|token| token.0);
    assert_eq!(tokens, [1, 2, 3, 4].map(Token));
}

#[test]
fn what_changes_memory_is_settled_by_an_answer_to_it_or_to_what_was_posted_later() {
    for (kind, is_answered) in [(Kind::Write, true), (Kind::FetchAdd, true), (Kind::Signal, false)]
    {
        let (mut peer, said) = peer(1);
        peer.post(Token(1), read(5));
        assert!(peer.has_settled(), "a read changes nothing");
        peer.post(Token(2), change(kind, is_answered));
        peer.post(Token(3), read(5));
        let heads = take(&mut peer, &said[0]);
        assert!(!peer.has_settled());
        assert!(peer.end(heads[0].request, Ok(0)).is_some());
        assert!(!peer.has_settled(), "{kind:?} was posted later");
        assert!(peer.end(heads[2].request, Ok(0)).is_some());
        assert!(peer.has_settled());
        peer.post(Token(4), Asked::Message(Payload::words([1])));
        assert!(peer.has_settled(), "nor does a message");
    }
}
