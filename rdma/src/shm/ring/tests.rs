//! Behaviour of the ring, with both sides in one thread.

use super::*;

fn message(len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from(i * 7 % 251).unwrap()).collect()
}

#[test]
fn messages_of_every_length_arrive_whole_and_in_order() {
    let (ring, mut producer, consumer) =
        (Ring::default(), Producer::default(), Consumer::default());
    let mut buffer = EMPTY;
    for round in 0..3 {
        for len in (0..=MESSAGE_LEN_MAX).step_by(if round == 0 { 1 } else { 61 }) {
            assert!(!consumer.is_ready(&ring));
            assert!(producer.push(&ring, &message(len)));
            assert!(consumer.is_ready(&ring));
            assert_eq!(consumer.pop(&ring, &mut buffer).unwrap(), Some(len));
            assert_eq!(buffer.as_flattened()[..len], message(len));
        }
    }
    assert_eq!(consumer.pop(&ring, &mut buffer).unwrap(), None);
}

#[test]
fn a_full_ring_takes_nothing_until_it_is_read() {
    let (ring, mut producer, consumer) =
        (Ring::default(), Producer::default(), Consumer::default());
    let sent = (0..).take_while(|_| producer.push(&ring, &message(100))).count();
    assert_eq!(sent as u64, CELLS / 2);
    let mut buffer = EMPTY;
    consumer.pop(&ring, &mut buffer).unwrap();
    assert!(producer.push(&ring, &message(112)));
    assert!(!producer.push(&ring, &[]));
}

#[test]
fn a_sender_that_waits_is_called_when_there_is_room_for_any_message() {
    for len in (0..=MESSAGE_LEN_MAX).step_by(37) {
        let (ring, mut producer, consumer) =
            (Ring::default(), Producer::default(), Consumer::default());
        let mut buffer = EMPTY;
        while producer.push(&ring, &message(len)) {}
        let mut is_called = false;
        while !is_called {
            let before = consumer.consumed();
            assert!(consumer.pop(&ring, &mut buffer).unwrap().is_some(), "{len} bytes");
            is_called = consumer.is_call_due(before) && producer.has_room_for_any(&ring);
        }
    }
}

#[test]
fn a_length_beyond_the_limit_is_refused() {
    let (ring, consumer) = (Ring::default(), Consumer::default());
    let stamp = lap(0) << LEN_BITS | 0xFFFF;
    ring.cells[0].stamp.store(stamp, Ordering::Relaxed);
    let mut buffer = EMPTY;
    let error = consumer.pop(&ring, &mut buffer).unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error}");
    consumer.close();
    assert!(!consumer.is_ready(&ring));
    assert_eq!(consumer.pop(&ring, &mut buffer).unwrap(), None);
}

#[test]
fn a_receiver_that_lies_about_its_progress_only_stops_the_ring() {
    let (ring, mut producer) = (Ring::default(), Producer::default());
    ring.consumed.store(u64::MAX / 2, Ordering::Relaxed);
    while producer.push(&ring, &message(4000)) {}
    ring.consumed.store(u64::MAX, Ordering::Relaxed);
    assert!(!producer.push(&ring, &message(4000)));
}
