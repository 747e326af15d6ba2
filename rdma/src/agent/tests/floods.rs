//! More than anybody needs, and anything at all.

use std::ptr::NonNull;

use super::{credit::BATCH, *};
use crate::{MESSAGES_MAX, sim::Random};

#[test]
fn regions_are_announced_once_and_not_without_end() {
    let region = |number: u64| {
        let head = Head { key: number, offset: number, ..Head::new(Kind::Region) };
        bytes(head, &u64::MAX.to_le_bytes())
    };
    for first in [1, 7] {
        let mut stage = Stage::new();
        stage.say(HOSTILE, &region(first)).unwrap();
        stage.say(HOSTILE, &region(first)).unwrap_err();
        stage.check_unharmed();
    }
    for number in [1 << 20, 1 << 32, 1 << 32 | 1, u64::MAX] {
        let mut stage = Stage::new();
        stage.say(HOSTILE, &region(number)).unwrap_err();
    }
    let mut stage = Stage::new();
    let accepted = (0..1_000_000).take_while(|&number| stage.say(HOSTILE, &region(number)).is_ok());
    assert!(accepted.count() <= 1024);
    stage.check_unharmed();
}

#[test]
fn who_asks_without_reading_the_answers_is_lost() {
    let mut stage = Stage::new();
    *stage.wires[HOSTILE.index()].is_full.lock().unwrap() = true;
    let read = Head { request: 5, ..packet(Kind::Read, stage.key, 0) };
    let read = bytes(read, &(REGION_LEN as u64).to_le_bytes());
    let asked = (0..1_000_000).take_while(|_| stage.say(HOSTILE, &read).is_ok()).count();
    assert!((1024..1100).contains(&asked), "{asked} answers may wait");
    assert!(stage.is_closed(HOSTILE), "and wait no longer");
    stage.check_unharmed();
}

#[test]
fn who_sends_messages_without_credit_is_lost() {
    let mut stage = Stage::new();
    let message = bytes(Head::new(Kind::Message), b"more");
    (0..MESSAGES_MAX).for_each(|_| stage.say(HOSTILE, &message).unwrap());
    let error = stage.say(HOSTILE, &message).unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }));
    let reason = error.to_string();
    assert!(reason.contains("node 1 sends messages without credit"), "{reason}");
    assert!(reason.contains("1024 that its program has not polled"), "{reason}");
    assert!(stage.agent.has_lost(HOSTILE));
    assert_eq!(stage.messages.len(), MESSAGES_MAX as usize, "no more are kept");
    stage.check_unharmed();
}

#[test]
fn credit_is_given_for_what_is_handed_out() {
    let mut stage = Stage::new();
    let message = bytes(Head::new(Kind::Message), b"more");
    let gifts = |stage: &mut Stage| -> Vec<u64> {
        let heard = stage.heard(HONEST);
        assert!(heard.iter().all(|(head, _)| head.kind == Kind::Credit));
        heard.iter().map(|(head, _)| head.offset).collect()
    };
    (0..MESSAGES_MAX).for_each(|_| stage.say(HONEST, &message).unwrap());
    assert!(gifts(&mut stage).is_empty(), "nothing was handed out");
    for _ in 0..10 {
        (1..BATCH).for_each(|_| assert!(!stage.agent.hand_out(HONEST)));
        assert!(stage.agent.hand_out(HONEST));
        assert_eq!(gifts(&mut stage), [u64::from(BATCH)]);
        (0..BATCH).for_each(|_| stage.say(HONEST, &message).unwrap());
    }
    stage.say(HONEST, &message).unwrap_err();
    assert!(!stage.agent.hand_out(HONEST), "a node that is lost gets nothing");
}

#[test]
fn who_gives_credit_for_what_it_was_not_sent_is_lost() {
    let credit = |count| bytes(Head { offset: count, ..Head::new(Kind::Credit) }, &[]);
    for count in [1, u64::from(u32::MAX) + 1, u64::MAX] {
        let mut stage = Stage::new();
        stage.say(HOSTILE, &credit(count)).unwrap_err();
        stage.check_unharmed();
    }
}

#[test]
fn a_full_queue_of_messages_ends_with_its_target() {
    let mut stage = Stage::new();
    let send = |stage: &Stage| {
        let op = Op::Send { target: HOSTILE, message: NonNull::from(b"hello") };
        // SAFETY: the message is a constant.
        unsafe { stage.agent.post(HOSTILE, &Request { token: Token(3), op }) }
    };
    let sent = (0..2 * MESSAGES_MAX).take_while(|_| send(&stage)).count();
    assert_eq!(sent, MESSAGES_MAX as usize);
    let credit = bytes(Head { offset: 1, ..Head::new(Kind::Credit) }, &[]);
    for _ in 0..2 {
        assert!(!send(&stage) && !stage.agent.has_room_again());
        stage.say(HOSTILE, &credit).unwrap();
        assert!(stage.agent.has_room_again());
        assert!(send(&stage) && !stage.agent.has_room_again(), "it is used up");
    }
    assert!(!send(&stage));
    stage.say(HOSTILE, &credit).unwrap();
    stage.agent.lose(HOSTILE, Departure::Died);
    assert!(!stage.agent.has_room_again(), "nobody is told of room at a node that is gone");
    stage.ended.clear();
    assert!(send(&stage));
    stage.check_unharmed();
    assert!(matches!(stage.ended[..], [(Token(3), Err(Error::PeerLost { node: HOSTILE, .. }))]));
}

#[test]
fn who_reads_no_replies_is_given_no_credit() {
    let mut stage = Stage::new();
    *stage.wires[HOSTILE.index()].is_full.lock().unwrap() = true;
    let message = bytes(Head::new(Kind::Message), b"more");
    let sent = (0..1_000_000).take_while(|_| {
        let is_heard = stage.say(HOSTILE, &message).is_ok();
        if is_heard {
            stage.agent.hand_out(HOSTILE);
        }
        is_heard
    });
    assert!(sent.count() < 1_000_000);
    stage.check_unharmed();
}

#[test]
fn signs_of_life_do_not_heap_up_for_who_does_not_read_them() {
    let mut stage = Stage::new();
    let is_full = stage.wires[HOSTILE.index()].is_full.clone();
    *is_full.lock().unwrap() = true;
    (0..1000).for_each(|_| stage.agent.beat());
    *is_full.lock().unwrap() = false;
    stage.agent.flush(HOSTILE);
    assert_eq!(stage.heard(HOSTILE).len(), 1);
    assert_eq!(stage.heard(HONEST).len(), 1000);
}

/// Packets that are nearly right, or noise.
fn noise(random: &mut Random) -> Vec<u8> {
    let mut stream = Vec::new();
    for _ in 0..random.below(20) {
        let mut head = [0; HEAD_LEN];
        random.fill(&mut head);
        if random.chance(900_000) {
            head[0] = u8::try_from(random.below(16)).unwrap();
            head[1] = u8::try_from(random.below(2)).unwrap();
            (head[2], head[3]) = (0, 0);
            let lens = [0, 8, 8, 8, 16, 32, 100, 5000];
            let len: u32 = lens[random.index(lens.len())];
            head[4..8].copy_from_slice(&len.to_le_bytes());
        }
        stream.extend_from_slice(&head);
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]).min(10_000);
        let start = stream.len();
        stream.resize(start + usize::try_from(len).unwrap(), 0);
        random.fill(&mut stream[start..]);
    }
    stream
}

#[test]
fn noise_harms_nobody() {
    let memory = Stage::new().memory;
    let mut lost = 0;
    for seed in 0..1000 {
        let mut stage = Stage::on(memory.clone());
        let mut random = Random::new(seed);
        let stream = noise(&mut random);
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.len().min(1 + random.index(3000)));
            if stage.say(HOSTILE, part).is_err() {
                lost += 1;
                break;
            }
            rest = after;
        }
        if !stage.is_closed(HONEST) {
            // Noise may say that a node is lost; then it is.
            stage.check_unharmed();
        }
        assert!(stage.own().iter().all(|byte| *byte == CANARY), "seed {seed}");
    }
    assert!(lost > 500, "most noise breaks the protocol: {lost}");
}
