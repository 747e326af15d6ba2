//! What a frame costs a processor at both ends of a link together, beside the part of it that
//! cannot be saved: its checksum, made once and checked once.

#![allow(missing_docs, reason = "criterion makes a public function")]

use std::{hint::black_box, time::Duration};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pangea_rdma::{
    Moment, NodeId,
    link::{Class, FRAME_LEN_MAX, Identity, Link, PACKET_LEN_MAX, Settings, frame::HEAD_LEN},
};

/// An end whose wire has read a frame as soon as it is told to.
struct End {
    link: Link,
    slab: Vec<[u8; FRAME_LEN_MAX]>,
}

impl End {
    fn new(source: u16) -> Self {
        let (source, target) = (NodeId::new(source), NodeId::new(1 - source));
        let settings = Settings::new(Identity { cluster: 1, epoch: 1, source, target });
        let slab = vec![[0; FRAME_LEN_MAX]; settings.slots()];
        Self { link: Link::new(settings).expect("the settings are sound"), slab }
    }

    /// Hands `peer` all that there is to send.
    fn transmit(&mut self, now: Moment, peer: &mut Self) {
        while let Some(outgoing) = self.link.transmit(now, &mut self.slab) {
            let frame = &self.slab[outgoing.slot.index()][..outgoing.len];
            peer.link.receive(now, frame, &mut |_, packet| {
                black_box(packet);
                true
            });
            self.link.sent(outgoing.slot);
        }
    }
}

fn carry_frames(criterion: &mut Criterion) {
    for len in [8, 1000, PACKET_LEN_MAX] {
        let mut group = criterion.benchmark_group(format!("frame with a packet of {len} bytes"));
        group.throughput(Throughput::Elements(1));
        let packet = vec![1; len];
        let (mut one, mut other) = (End::new(0), End::new(1));
        let mut now = Moment::START;
        group.bench_function("carry", |bencher| {
            bencher.iter(|| {
                now = now.after(Duration::from_nanos(500));
                assert!(one.link.push(Class::Request, &mut one.slab, &[black_box(&packet)]));
                one.transmit(now, &mut other);
                other.transmit(now, &mut one);
            });
        });
        let frame = vec![1; HEAD_LEN + len + 2];
        group.bench_function("checksums", |bencher| {
            bencher.iter(|| (crc32c::crc32c(black_box(&frame)), crc32c::crc32c(black_box(&frame))));
        });
        group.finish();
    }
}

criterion_group!(benches, carry_frames);
criterion_main!(benches);
