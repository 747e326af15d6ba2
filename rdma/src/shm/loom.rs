//! Models of the ring and the doorbell, over every interleaving and every stale read that the
//! memory model allows: `RUSTFLAGS="--cfg loom" cargo test -p pangea-rdma --release loom`.

use std::time::{Duration, Instant};

use loom::{cell::Cell, sync::Arc, thread};

use super::ring::{Consumer, EMPTY, Producer, Ring};
use crate::{
    primitive::{AtomicU32, Ordering},
    turn::Turn,
    wait::Doorbell,
};

#[test]
fn messages_cross_the_ring_in_order_and_whole() {
    loom::model(|| {
        let ring = Arc::new(Ring::default());
        let theirs = ring.clone();
        let sender = thread::spawn(move || {
            let mut producer = Producer::default();
            // Three messages through two cells, so that one waits for a cell to come back.
            for value in 1..=3_u8 {
                while !producer.push(&theirs, &[value; 9]) {
                    thread::yield_now();
                }
            }
        });
        let consumer = Consumer::default();
        let mut buffer = EMPTY;
        for value in 1..=3 {
            while !consumer.is_ready(&ring) {
                thread::yield_now();
            }
            assert_eq!(consumer.pop(&ring, &mut buffer).unwrap(), Some(9));
            assert_eq!(buffer[0][..9], [value; 9]);
        }
        sender.join().unwrap();
    });
}

#[test]
fn no_ring_of_a_doorbell_is_lost() {
    loom::model(|| {
        let shared = Arc::new((Doorbell::default(), AtomicU32::new(0)));
        let theirs = shared.clone();
        let ringer = thread::spawn(move || {
            // Relaxed: the doorbell's fences order it.
            theirs.1.store(1, Ordering::Relaxed);
            theirs.0.ring();
        });
        let deadline = Instant::now() + Duration::from_secs(3600);
        // Relaxed: the doorbell's fences order it.
        assert!(shared.0.sleep(deadline, &mut || shared.1.load(Ordering::Relaxed) == 1));
        ringer.join().unwrap();
    });
}

#[test]
fn what_is_done_in_a_turn_is_visible_in_the_next() {
    loom::model(|| {
        let turn = Arc::new(Turn::new(Cell::new(0)));
        let theirs = turn.clone();
        // The model reports two threads in the cell at once, or one that need not see the other's
        // value.
        let add =
            |turn: &Turn<Cell<u32>>| turn.take().map(|cell| cell.set(cell.get() + 1)).is_some();
        let other = thread::spawn(move || u32::from(add(&theirs)));
        let turns = u32::from(add(&turn)) + other.join().unwrap();
        assert!(turns > 0, "one of them finds it free");
        assert_eq!(turn.take().unwrap().get(), turns);
    });
}

#[test]
fn who_listens_is_called_or_sees_the_change() {
    loom::model(|| {
        let shared = Arc::new((Doorbell::default(), AtomicU32::new(0), AtomicU32::new(0)));
        let theirs = shared.clone();
        let ringer = thread::spawn(move || {
            // Relaxed, both: the doorbell orders the first, and `join` the second.
            theirs.1.store(1, Ordering::Relaxed);
            theirs.2.store(u32::from(theirs.0.ring()), Ordering::Relaxed);
        });
        shared.0.listen();
        // Relaxed, both: as above.
        let has_seen = shared.1.load(Ordering::Relaxed) == 1;
        ringer.join().unwrap();
        let is_called = shared.2.load(Ordering::Relaxed) == 1;
        assert!(has_seen || is_called, "who blocks now is woken by nobody");
        shared.0.stop_listening();
        assert!(!shared.0.ring());
    });
}
