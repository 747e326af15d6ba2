//! Models of the ring and the doorbell, over every interleaving and every stale read that the
//! memory model allows: `RUSTFLAGS="--cfg loom" cargo test -p pangea-rdma --release loom`.

use std::time::{Duration, Instant};

use loom::{sync::Arc, thread};

use super::ring::{Consumer, Producer, Ring};
use crate::{
    primitive::{AtomicU32, Ordering},
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
        let mut buffer = [0; 64];
        for value in 1..=3 {
            while !consumer.is_ready(&ring) {
                thread::yield_now();
            }
            assert_eq!(consumer.pop(&ring, &mut buffer).unwrap(), Some(9));
            assert_eq!(buffer[..9], [value; 9]);
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
