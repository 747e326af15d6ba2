//! Messages to a node that does not take them: how many it keeps, and what goes on meanwhile.

use std::{ptr::NonNull, thread, time::Duration, time::Instant};

use super::{
    cluster::{Cluster, Served},
    lent::pattern,
    node::{at, soon},
    providers::Maker,
};
use crate::{
    Completion, Error, Fabric, MESSAGES_MAX, NodeId, Op, Request, Token,
    primitive::{AtomicU32, Ordering},
};

/// Messages that a node may keep.
const KEPT_MAX: usize = MESSAGES_MAX as usize;
/// Far more than that.
const COUNT: usize = 5 * KEPT_MAX;
/// How long a node that does not poll leads at a time.
const MOMENT: Duration = Duration::from_millis(1);

/// A node that sends numbers, and takes nothing in but that they are sent.
struct Sender<'a> {
    fabric: &'a dyn Fabric,
    target: NodeId,
    numbers: Vec<[u8; 8]>,
    posted: usize,
    sent: usize,
}

impl<'a> Sender<'a> {
    fn new(fabric: &'a dyn Fabric, target: u16) -> Self {
        let numbers = (0..COUNT as u64).map(u64::to_le_bytes).collect();
        Self { fabric, target: NodeId::new(target), numbers, posted: 0, sent: 0 }
    }

    /// Posts what there is room for; how many messages that are.
    fn post(&mut self) -> usize {
        let rest = (self.posted as u64..).map(Token).zip(&self.numbers[self.posted..]);
        let send = |(token, number): (Token, &[u8; 8])| {
            let message = NonNull::from(number);
            Request { token, op: Op::Send { target: self.target, message } }
        };
        let requests: Vec<Request> = rest.map(send).collect();
        // SAFETY: nobody changes the numbers; each case keeps them until all that was posted is
        // sent, or the target is lost.
        let count = unsafe { self.fabric.post(&requests) }.unwrap();
        self.posted += count;
        count
    }

    fn poll(&mut self) {
        let sent = &mut self.sent;
        self.fabric.poll(&mut |completion| {
            if let Completion::Done { result, .. } = completion {
                result.unwrap();
                *sent += 1;
            }
        });
    }

    /// Sends until there is no room, although all that was posted is sent.
    fn fill(&mut self) {
        let deadline = soon();
        loop {
            assert!(Instant::now() < deadline, "{} of {} are sent", self.sent, self.posted);
            self.poll();
            let is_all_sent = self.sent == self.posted;
            if self.post() == 0 && is_all_sent {
                return;
            }
            self.fabric.wait_until(Instant::now() + MOMENT, &mut || self.fabric.has_arrived());
        }
    }

    /// Sends the rest, and blocks while there is no room.
    fn finish(&mut self) {
        loop {
            self.poll();
            if self.sent == COUNT {
                return;
            }
            if self.post() == 0 {
                let is_woken = self.fabric.wait(self.fabric.epoch(), soon());
                assert!(is_woken, "who waits for room is woken, after {} messages", self.posted);
            }
        }
    }
}

/// Does `deed` while `target`, which waits for something else, serves its peers but takes nothing.
fn while_busy(target: &dyn Fabric, deed: impl FnOnce()) {
    let is_over = AtomicU32::new(0);
    thread::scope(|scope| {
        let busy = scope.spawn(|| {
            // Acquire: pairs with the Release below.
            target.wait_until(soon(), &mut || is_over.load(Ordering::Acquire) == 1)
        });
        deed();
        // Release: pairs with the Acquire above.
        is_over.store(1, Ordering::Release);
        target.ring(target.node());
        assert!(busy.join().unwrap(), "it is told that it is over");
    });
}

pub(super) fn messages_that_nobody_takes_are_few_and_hold_up_nothing_else(make: Maker) {
    let mut cluster = Cluster::new(make, 2, 1 << 16);
    let (mut poster, mut target) = (cluster.take(0), cluster.take(1));
    poster.pause();
    target.pause();
    let mut sender = Sender::new(&*poster.node.fabric, 1);
    while_busy(&*target.node.fabric, || {
        sender.fill();
        assert!((1..=KEPT_MAX).contains(&sender.posted), "{} are kept", sender.posted);
        for number in 0..10 {
            let bytes = pattern(number, 5000);
            poster.node.write(at(1, number), &bytes);
            assert!(poster.node.read(at(1, number), 5000) == bytes);
        }
        poster.node.run(Op::FetchAdd { target: at(1, 1 << 15), addend: 1 }).unwrap();
        assert_eq!(sender.post(), 0, "there is still no room");
    });
    target.resume();
    sender.finish();
    // What is lost on its way is sent again only by nodes that are served.
    poster.resume();
    for number in 0..COUNT as u64 {
        let message = target.node.message();
        assert_eq!(message, (NodeId::new(0), number.to_le_bytes().to_vec()), "once, in order");
    }
}

/// Has `own` send all that it may to `peer`, and then a signal, without ever polling; returns when
/// the signal of `peer` has come.
fn flood(own: &mut Served, peer: u16) {
    let node = own.node.clone();
    let fabric = &*node.fabric;
    let mut sender = Sender::new(fabric, peer);
    let lead = || _ = fabric.wait_until(Instant::now() + MOMENT, &mut || false);
    let mut in_vain = 0;
    while in_vain < 10 {
        in_vain = if sender.post() == 0 { in_vain + 1 } else { 0 };
        lead();
    }
    let signal = Request { token: Token(0), op: Op::Signal { target: at(peer, 0), value: 1 } };
    // SAFETY: a signal names no memory of this process.
    while unsafe { fabric.post(&[signal]) }.unwrap() == 0 {
        lead();
    }
    assert!(fabric.wait_until(soon(), &mut || node.own_word(0) == 1), "a signal comes through");
    let deadline = soon();
    // With the signal.
    while sender.sent <= sender.posted {
        sender.poll();
        lead();
        assert!(Instant::now() < deadline, "{} of {} are sent", sender.sent, sender.posted);
    }
    own.resume();
}

pub(super) fn nodes_that_flood_each_other_and_never_poll_hear_signals(make: Maker) {
    let mut cluster = Cluster::new(make, 2, 4096);
    let (mut one, mut other) = (cluster.take(0), cluster.take(1));
    one.pause();
    other.pause();
    thread::scope(|scope| {
        scope.spawn(|| flood(&mut one, 1));
        flood(&mut other, 0);
    });
    assert_eq!(one.node.run(Op::FetchAdd { target: at(1, 0), addend: 1 }).unwrap(), 1);
}

pub(super) fn a_loss_ends_the_wait_for_room(make: Maker) {
    let mut cluster = Cluster::new(make, 2, 4096);
    let (mut poster, mut target) = (cluster.take(0), cluster.take(1));
    poster.pause();
    target.pause();
    let fabric = &*poster.node.fabric;
    let mut sender = Sender::new(fabric, 1);
    while_busy(&*target.node.fabric, || sender.fill());
    let dying = thread::spawn(|| target.die());
    while sender.post() == 0 {
        assert!(fabric.wait(fabric.epoch(), soon()), "a loss wakes who waits for room");
        sender.poll();
    }
    dying.join().unwrap();
    let mut ended = Vec::new();
    while ended.is_empty() {
        fabric.poll(&mut |completion| {
            if let Completion::Done { result, .. } = completion {
                ended.push(result);
            }
        });
    }
    let lost = |result: &Result<u64, Error>| matches!(result, Err(Error::PeerLost { .. }));
    assert!(ended.iter().all(lost), "{ended:?}");
}
