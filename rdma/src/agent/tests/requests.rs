//! What a hostile peer asks for.

use super::*;

/// Everything that can be asked about a place, as packets that are right but for it.
fn requests(key: u64, offset: u64) -> Vec<Vec<u8>> {
    let word = 8_u64.to_le_bytes();
    let ask =
        |kind, payload: &[u8]| bytes(Head { request: 5, key, offset, ..Head::new(kind) }, payload);
    vec![
        ask(Kind::Read, &word),
        ask(Kind::Write, &word),
        ask(Kind::FetchAdd, &word),
        ask(Kind::Swap, &word),
        ask(Kind::CompareSwap, &[[CANARY; 8], [1; 8]].concat()),
        ask(Kind::Signal, &word),
    ]
}

/// Checks that each of `requests` is refused, a signal silently, and harms nobody.
fn check_refused(stage: &mut Stage, requests: &[Vec<u8>]) {
    for request in requests {
        stage.say(HOSTILE, request).unwrap();
        let heard = stage.heard(HOSTILE);
        if request[0] == Kind::Signal as u8 {
            assert!(heard.is_empty());
        } else {
            let [(head, _)] = &heard[..] else { panic!("{heard:?}") };
            assert_eq!((head.kind, head.request), (Kind::Refused, 5));
        }
        stage.check_unharmed();
    }
}

#[test]
fn places_outside_are_refused() {
    let mut stage = Stage::new();
    let (key, end) = (stage.key, REGION_LEN as u64);
    for offset in [end - 7, end, end + 8, 1 << 32, 1 << 63, u64::MAX - 7, u64::MAX - 3, u64::MAX] {
        check_refused(&mut stage, &requests(key, offset));
    }
    for (offset, len) in [(0, u64::MAX), (8, u64::MAX - 7), (1, end), (end, 1)] {
        let read = Head { request: 5, ..packet(Kind::Read, key, offset) };
        check_refused(&mut stage, &[bytes(read, &len.to_le_bytes())]);
    }
}

#[test]
fn words_off_their_place_are_refused() {
    let mut stage = Stage::new();
    for offset in 1..8 {
        let atomics = requests(stage.key, offset).split_off(2);
        check_refused(&mut stage, &atomics);
    }
}

#[test]
fn keys_that_nobody_was_told_are_refused() {
    let mut stage = Stage::new();
    for key in [0, 1, stage.key ^ 1, stage.key.swap_bytes(), u64::MAX] {
        check_refused(&mut stage, &requests(key, 0));
    }
}

#[test]
fn a_write_that_does_not_fit_is_refused_and_what_follows_is_understood() {
    let mut stage = Stage::new();
    let head = Head { request: 5, ..packet(Kind::Write, stage.key, REGION_LEN as u64 - 100) };
    check_refused(&mut stage, &[bytes(head, &[1; 5000])]);
    let unknown = Head { request: 5, ..packet(Kind::Write, stage.key + 1, 0) };
    check_refused(&mut stage, &[bytes(unknown, &[1; 5000])]);
}

#[test]
fn heads_that_there_are_not_lose_their_sender() {
    let sound = packet(Kind::FetchAdd, 0, 0).encode();
    let mut wrong = Vec::new();
    for (place, values) in [(0, [0, 16, 127, 255]), (1, [2, 3, 128, 255]), (2, [1, 2, 64, 255])] {
        for value in values {
            let mut bytes = sound;
            bytes[place] = value;
            wrong.push(bytes.to_vec());
        }
    }
    wrong.push(b"GET / HTTP/1.1\r\nHost: pangea\r\nAccept: */*\r\n\r\n".to_vec());
    wrong.push(vec![0xFF; 64]);
    for bytes in wrong {
        let mut stage = Stage::new();
        let error = stage.say(HOSTILE, &bytes).unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{error}");
        assert!(stage.is_closed(HOSTILE));
        stage.check_unharmed();
    }
}

#[test]
fn lengths_that_no_packet_has_lose_their_sender() {
    let memory = Stage::new().memory;
    for kind in 1..=15 {
        for len in [1_u32, 7, 9, 15, 17, 33, 4097, (256 << 10) + 1, 1 << 31, u32::MAX] {
            let mut bytes = packet(Kind::Beat, 0, 0).encode();
            bytes[0] = kind;
            bytes[4..8].copy_from_slice(&len.to_le_bytes());
            let may = match kind {
                1 => len <= 4096,
                3 | 4 => len <= 256 << 10,
                _ => false,
            };
            if may {
                continue;
            }
            let mut stage = Stage::on(memory.clone());
            let error = stage.say(HOSTILE, &bytes).unwrap_err();
            assert!(matches!(error, Error::Protocol { .. }), "{kind} {len}: {error}");
            stage.check_unharmed();
        }
    }
}

#[test]
fn a_word_is_written_whole() {
    let mut stage = Stage::new();
    let head = packet(Kind::Write, stage.key, 64);
    let packet = bytes(head, &7_u64.to_le_bytes());
    let (last, first) = packet.split_last().unwrap();
    for byte in first {
        stage.say(HONEST, &[*byte]).unwrap();
        assert_eq!(stage.own()[64..72], [CANARY; 8], "half a word is no word");
    }
    stage.say(HONEST, &[*last]).unwrap();
    assert_eq!(stage.own()[64..72], 7_u64.to_le_bytes());
}
