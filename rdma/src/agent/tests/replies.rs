//! What a hostile peer answers.

use std::ptr::NonNull;

use super::*;

/// Bytes that node 0 asks for.
const LEN: usize = 5000;

/// A stage on which the hostile peer has announced a region, from which node 0 reads (token 1) to
/// the middle of `target`, and to a word of which it adds (token 2). Returns the requests' numbers.
fn ask(target: &mut [u8]) -> (Stage, u64, u64) {
    let mut stage = Stage::new();
    let region = Head { key: 99, offset: 1, ..Head::new(Kind::Region) };
    stage.say(HOSTILE, &bytes(region, &(1_u64 << 40).to_le_bytes())).unwrap();
    let at = RemoteAddr { node: HOSTILE, region: Region(1), offset: 64 };
    let middle = NonNull::from(&mut target[LEN..2 * LEN]);
    stage.post(1, Op::Read { source: at, target: middle });
    stage.post(2, Op::FetchAdd { target: at, addend: 1 });
    let heard = stage.heard(HOSTILE);
    (stage, heard[0].0.request, heard[1].0.request)
}

fn reply(kind: Kind, request: u64, offset: u64, is_last: bool, payload: &[u8]) -> Vec<u8> {
    bytes(Head { request, offset, is_last, ..Head::new(kind) }, payload)
}

/// Checks that the hostile peer is lost for what `answers` makes of the two requests' numbers, that
/// each request ends once, and that nothing is written but to where the bytes were to go.
fn check_lost(answers: &dyn Fn(u64, u64) -> Vec<Vec<u8>>) {
    let mut target = vec![CANARY; 3 * LEN];
    let (mut stage, read, add) = ask(&mut target);
    let heard: Result = answers(read, add).iter().try_for_each(|bytes| stage.say(HOSTILE, bytes));
    let error = heard.unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error}");
    let mut ended: Vec<u64> = stage.ended.iter().map(|(token, _)| token.0).collect();
    ended.sort_unstable();
    assert_eq!(ended, [1, 2], "each ends once");
    stage.check_unharmed();
    let around = target[..LEN].iter().chain(&target[2 * LEN..]);
    assert!(around.into_iter().all(|byte| *byte == CANARY));
}

#[test]
fn answers_to_what_nobody_asked_lose_their_sender() {
    for request in [2, 77, 1 << 32, u64::MAX] {
        check_lost(&|_, _| vec![reply(Kind::Bytes, request, 0, true, &[1; LEN])]);
        check_lost(&|_, _| vec![reply(Kind::Bytes, request, 0, true, &[])]);
        check_lost(&|_, _| vec![reply(Kind::Done, request, 7, true, &[])]);
        check_lost(&|_, _| vec![reply(Kind::Refused, request, 0, true, &[0; 32])]);
    }
}

#[test]
fn other_bytes_than_those_that_were_asked_for_lose_their_sender() {
    // Longer; shorter; the end too early, or not said; from the middle; twice the beginning.
    check_lost(&|read, _| vec![reply(Kind::Bytes, read, 0, true, &[1; LEN + 1])]);
    check_lost(&|read, _| vec![reply(Kind::Bytes, read, 0, true, &[1; LEN - 1])]);
    check_lost(&|read, _| vec![reply(Kind::Bytes, read, 0, false, &[1; LEN])]);
    check_lost(&|read, _| vec![reply(Kind::Bytes, read, 1, false, &[1; 10])]);
    check_lost(&|read, _| vec![reply(Kind::Bytes, read, u64::MAX, false, &[1; 10])]);
    let first = |read| reply(Kind::Bytes, read, 0, false, &[1; 1000]);
    check_lost(&|read, _| vec![first(read), first(read)]);
    check_lost(&|read, _| vec![first(read), reply(Kind::Bytes, read, 1000, true, &[1; LEN])]);
}

#[test]
fn answers_of_the_wrong_kind_lose_their_sender() {
    check_lost(&|read, _| vec![reply(Kind::Done, read, 0, true, &[])]);
    check_lost(&|_, add| vec![reply(Kind::Bytes, add, 0, true, &[1; 8])]);
}

#[test]
fn a_second_answer_loses_its_sender() {
    check_lost(&|_, add| vec![reply(Kind::Done, add, 7, true, &[]); 2]);
    check_lost(&|read, _| vec![reply(Kind::Bytes, read, 0, true, &[1; LEN]); 2]);
    check_lost(&|read, _| vec![reply(Kind::Refused, read, 0, true, &[1; 32]); 2]);
}

#[test]
fn an_answer_may_come_in_parts_and_after_others() {
    let mut target = vec![CANARY; 3 * LEN];
    let (mut stage, read, add) = ask(&mut target);
    stage.say(HOSTILE, &reply(Kind::Bytes, read, 0, false, &[1; 3000])).unwrap();
    stage.say(HOSTILE, &reply(Kind::Done, add, 41, true, &[])).unwrap();
    stage.say(HOSTILE, &reply(Kind::Bytes, read, 3000, true, &[2; LEN - 3000])).unwrap();
    assert!(matches!(stage.ended[..], [(Token(2), Ok(41)), (Token(1), Ok(0))]));
    let expected = [[1; 3000].as_slice(), &[2; LEN - 3000]].concat();
    assert!(target[LEN..2 * LEN] == expected);
}

#[test]
fn a_refusal_says_why() {
    let mut target = vec![CANARY; 3 * LEN];
    let (mut stage, read, add) = ask(&mut target);
    let words = |words: [u64; 4]| words.map(u64::to_le_bytes).as_flattened().to_vec();
    stage.say(HOSTILE, &reply(Kind::Refused, read, 0, true, &words([2, 64, 5000, 100]))).unwrap();
    stage.say(HOSTILE, &reply(Kind::Refused, add, 0, true, &words([u64::MAX; 4]))).unwrap();
    let [(_, Err(first)), (_, Err(second))] = &stage.ended[..] else { panic!("{:?}", stage.ended) };
    assert!(matches!(first, Error::OutOfBounds { offset: 64, len: 5000, capacity: 100 }));
    assert!(matches!(second, Error::Protocol { .. }));
}

/// Checks that the hostile peer is lost for `answer`, which it gives in another stream of the link
/// while the first half of the bytes of a read has come.
fn check_lost_within_bytes(answer: &dyn Fn(u64) -> Vec<u8>) {
    let mut target = vec![CANARY; 3 * LEN];
    let (mut stage, read, _) = ask(&mut target);
    let bytes = reply(Kind::Bytes, read, 0, true, &[1; LEN]);
    stage.say(HOSTILE, &bytes[..HEAD_LEN + LEN / 2]).unwrap();
    let error = stage.say_beside(&answer(read)).unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error}");
    let is_lost = |(_, result): &(_, Result<u64>)| matches!(result, Err(Error::PeerLost { .. }));
    assert!(stage.ended.len() == 2 && stage.ended.iter().all(is_lost), "{:?}", stage.ended);
}

#[test]
fn a_read_does_not_end_while_its_bytes_are_arriving() {
    check_lost_within_bytes(&|read| reply(Kind::Refused, read, 0, true, &[0; 32]));
    check_lost_within_bytes(&|read| reply(Kind::Bytes, read, 0, true, &[2; LEN]));
    check_lost_within_bytes(&|read| reply(Kind::Bytes, read, 0, false, &[]));
    check_lost_within_bytes(&|read| reply(Kind::Done, read, 0, true, &[]));
}

#[test]
fn bytes_that_come_in_several_packets_may_come_in_several_streams() {
    let mut target = vec![CANARY; 3 * LEN];
    let (mut stage, read, _) = ask(&mut target);
    stage.say(HOSTILE, &reply(Kind::Bytes, read, 0, false, &[1; 3000])).unwrap();
    stage.say_beside(&reply(Kind::Bytes, read, 3000, true, &[2; LEN - 3000])).unwrap();
    assert!(matches!(stage.ended[..], [(Token(1), Ok(0))]));
}

#[test]
fn an_answer_to_a_write_that_is_not_sent_loses_its_sender() {
    for kind in [Kind::Done, Kind::Refused] {
        let mut target = vec![CANARY; 3 * LEN];
        let (mut stage, ..) = ask(&mut target);
        let at = RemoteAddr { node: HOSTILE, region: Region(1), offset: 0 };
        let source = vec![3; LEN];
        let write = || Op::Write { source: NonNull::from(&source[..]), target: at };
        stage.post(3, write());
        let number = stage.heard(HOSTILE)[0].0.request;
        let refusal = [0; 32];
        let why = if kind == Kind::Refused { &refusal[..] } else { &[] };
        stage.say(HOSTILE, &reply(kind, number, 0, true, why)).unwrap();
        assert_eq!(stage.ended.len(), 1, "it was sent");
        *stage.wires[HOSTILE.index()].is_full.lock().unwrap() = true;
        stage.post(4, write());
        // The same place under its next number.
        let number = number + (1 << 32);
        let error = stage.say(HOSTILE, &reply(kind, number, 0, true, why)).unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{error}");
        let last = stage.ended.iter().find(|(token, _)| *token == Token(4));
        assert!(matches!(last, Some((_, Err(Error::PeerLost { .. })))), "{:?}", stage.ended);
        *stage.wires[HOSTILE.index()].is_full.lock().unwrap() = false;
        stage.agent.flush(HOSTILE);
        assert!(stage.heard(HOSTILE).is_empty(), "the memory is read no more");
    }
}
