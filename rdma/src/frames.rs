//! A link over frames that may be lost, as Thunderbolt and the simulator have them.
//!
//! Packets are two streams of bytes, one of requests and one of replies, which are cut to frames;
//! [`Link`](crate::link::Link) makes them arrive, in order and once, over any [`Wire`].

mod device;

use std::{
    fmt, io, mem,
    os::fd::RawFd,
    time::{Duration, Instant},
};

pub(crate) use self::device::Device;
use crate::{
    Moment, Result,
    link::{Class, Link, PACKET_LEN_MAX, Slab, SlotId},
    packet::{HEAD_LEN, Kind},
    stream::{Assembler, Inbox, Inlet, Outlet, Source, Strict, pack},
    verbs::Held,
};

/// Where the device does not tell that something has come: how long its reader blocks, at least and
/// at most, by how long nothing has come.
const NAP: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(1));

/// What carries frames to a peer and from it, and may lose them.
pub(crate) trait Wire: fmt::Debug + Send {
    /// The time, for the link: it need not be that of the world.
    fn now(&self) -> Instant;

    /// The slots that frames are sent from.
    fn slab(&mut self) -> &mut Slab;

    /// Sends the first `len` bytes of a slot, at the next [`ring`](Self::ring) at the latest, and
    /// later says that it has; `false` where there is no room for it now.
    fn send(&mut self, slot: SlotId, len: usize) -> bool;

    /// Sends what waits for that.
    fn ring(&mut self) {}

    /// Hands what has come and what has been sent to `sink`, without waiting.
    fn poll(&mut self, sink: &mut dyn FnMut(Event<'_>));

    /// That nothing will come any more, if that is known.
    fn check(&self) -> Result {
        Ok(())
    }

    /// Whether the system tells when something comes: by the descriptor, after `arm`.
    fn tells(&self) -> bool {
        true
    }

    /// Gets ready to tell of what comes next.
    fn arm(&mut self) {}

    /// Becomes readable after [`arm`](Self::arm).
    fn descriptor(&self) -> Option<RawFd> {
        None
    }
}

/// What a wire has to say.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<'a> {
    /// A frame has come.
    Frame(&'a [u8]),
    /// The wire no longer reads the slot.
    Sent(SlotId),
}

/// A node's end of a connection: what its two ends share.
#[derive(Debug)]
struct End<W> {
    link: Link,
    wire: W,
    // When the link's time begins.
    start: Instant,
    // By class: bytes that have arrived and were not handed over.
    arrived: [Vec<u8>; Class::COUNT],
}

impl<W: Wire> End<W> {
    fn now(&self) -> Moment {
        Moment::START.after(self.wire.now() - self.start)
    }

    /// Hands to the wire what the link wants sent now.
    fn transmit(&mut self) {
        self.transmit_at(self.now());
    }

    fn transmit_at(&mut self, now: Moment) {
        while let Some(frame) = self.link.transmit(now, self.wire.slab()) {
            if !self.wire.send(frame.slot, frame.len) {
                // The queue is full: as good as lost, and sent again.
                self.link.sent(frame.slot);
            }
        }
        self.wire.ring();
    }

    /// Takes in what the wire has, and answers, when the time is `now`; how many bytes of the
    /// peer's frames that were, those among them that only answer: who sends much hears nothing
    /// else.
    fn poll(&mut self, now: Moment) -> usize {
        let Self { link, wire, arrived, .. } = self;
        let mut count = 0;
        wire.poll(&mut |event| match event {
            Event::Frame(frame) => {
                let is_of_peer = link.receive(now, frame, &mut |class, packet| {
                    arrived[class as usize].extend_from_slice(packet);
                    true
                });
                count += if is_of_peer { frame.len() } else { 0 };
            }
            Event::Sent(slot) => link.sent(slot),
        });
        self.transmit_at(now);
        count
    }
}

/// The two ends of a link over `wire`.
pub(crate) fn ends<W: Wire + 'static>(wire: W, link: Link) -> (Sender<W>, Receiver<W>) {
    let start = wire.now();
    let end = Held::new(End { link, wire, start, arrived: Default::default() });
    let outlet = Sender { end: end.clone(), scratch: Vec::with_capacity(PACKET_LEN_MAX) };
    let inlet = Receiver {
        end,
        arrived: Default::default(),
        assemblers: [Assembler::new(), Assembler::new()],
        heard: Moment::START,
    };
    (outlet, inlet)
}

/// The class of the packets of a kind, by its number.
fn class_of(kind: u8) -> Class {
    let replies = [Kind::Bytes, Kind::Done, Kind::Refused, Kind::Credit].map(|kind| kind as u8);
    if replies.contains(&kind) { Class::Reply } else { Class::Request }
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct Sender<W> {
    end: Held<End<W>>,
    // The part of a packet that goes into a frame.
    scratch: Vec<u8>,
}

impl<W: Wire + 'static> Outlet for Sender<W> {
    fn push(
        &mut self,
        head: &[u8; HEAD_LEN],
        payload: Source,
        already: usize,
    ) -> io::Result<usize> {
        let (class, all) = (class_of(head[0]), HEAD_LEN + payload.len());
        let Self { end, scratch } = self;
        let taken = end.with(|End { link, wire, .. }| {
            let mut taken = already;
            while taken < all {
                scratch.clear();
                pack(head, payload, taken, scratch, PACKET_LEN_MAX);
                if !link.push(class, wire.slab(), &[scratch]) {
                    break;
                }
                taken += scratch.len();
            }
            taken
        });
        Ok(taken.unwrap_or(already))
    }

    fn flush(&mut self) -> io::Result<bool> {
        self.end.with(End::transmit);
        Ok(true)
    }

    fn close(&mut self) {
        self.end.with(End::transmit);
    }
}

/// The receiving end.
#[derive(Debug)]
pub(crate) struct Receiver<W> {
    end: Held<End<W>>,
    arrived: [Vec<u8>; Class::COUNT],
    // By class: each is a stream of its own.
    assemblers: [Assembler; Class::COUNT],
    // When something came last.
    heard: Moment,
}

impl<W: Wire + 'static> Receiver<W> {
    /// Takes in what the wire has; how many bytes that were.
    fn poll(&mut self) -> Result<usize> {
        let Self { end, arrived, heard, .. } = self;
        let polled = end.with(|end| {
            let now = end.now();
            let count = end.poll(now);
            if count > 0 {
                *heard = now;
            }
            end.wire.check()?;
            mem::swap(&mut end.arrived, arrived);
            Ok(count)
        });
        polled.unwrap_or(Ok(0))
    }
}

impl<W: Wire + 'static> Inlet for Receiver<W> {
    fn receive(&mut self, inbox: &mut dyn Inbox) -> Result<usize> {
        // The end is not held while packets are handled: that takes the outlet's lock, which a
        // sender holds while it takes the end.
        let received = self.poll()?;
        for class in [Class::Request, Class::Reply] {
            let (arrived, assembler) =
                (&mut self.arrived[class as usize], &mut self.assemblers[class as usize]);
            if !arrived.is_empty() {
                let takes = &|kind| class_of(kind as u8) == class;
                assembler.feed(arrived, &mut Strict { inbox, takes })?;
                arrived.clear();
            }
        }
        Ok(received)
    }

    fn is_polled(&self) -> bool {
        true
    }

    fn arm(&mut self) -> bool {
        let armed = self.end.with(|end| {
            end.wire.arm();
            end.poll(end.now()) > 0
        });
        armed.unwrap_or(false)
    }

    fn wake_at(&mut self) -> Option<Instant> {
        let Self { end, heard, .. } = self;
        end.with(|end| {
            let deadline = end.link.deadline();
            let deadline = deadline.map(|at| end.start + Duration::from_nanos(at.0));
            let nap = || {
                let silence = end.now().since(*heard);
                end.wire.now() + (silence / 8).clamp(NAP.0, NAP.1)
            };
            deadline.into_iter().chain((!end.wire.tells()).then(nap)).min()
        })?
    }

    fn is_quiet(&mut self) -> bool {
        self.end.with(|end| end.link.is_quiet()).unwrap_or(true)
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.end.with(|end| end.wire.descriptor())?
    }

    fn close(&mut self, _inbox: &mut dyn Inbox) {
        self.end.with(|end| {
            // A peer that has left waits to hear that it was heard.
            end.link.conclude();
            end.transmit();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
