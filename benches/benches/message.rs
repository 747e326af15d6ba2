//! What sending and receiving a message costs a processor: a node that writes to itself.

#![allow(missing_docs, reason = "criterion makes a public function")]

use std::{hint::black_box, ptr::NonNull};

use criterion::{Criterion, criterion_group, criterion_main};
use pangea_rdma::{Fabric, Op, Request, Token, shm::Shm};

fn send_and_receive(criterion: &mut Criterion) {
    let fabric = Shm::alone().expect("a cluster of one");
    let mut group = criterion.benchmark_group("message to oneself");
    for len in [8, 4096] {
        let mut message = vec![1; len];
        group.bench_function(format!("{len} bytes"), |bencher| {
            bencher.iter(|| {
                let message = NonNull::from(&mut message[..]);
                let op = Op::Send { target: fabric.node(), message };
                // SAFETY: shared memory sends before `post` returns, so that the message outlives
                // its use.
                unsafe { fabric.post(&[Request { token: Token(0), op }]) }.expect("room");
                fabric.poll(&mut |completion| _ = black_box(completion));
            });
        });
    }
    group.finish();
}

criterion_group!(benches, send_and_receive);
criterion_main!(benches);
