//! Two ends of a link over a simulated network, which check all that they receive.

use std::{sync::LazyLock, time::Duration};

use crate::{
    Moment, NodeId,
    link::{Class, FRAME_LEN_MAX, Identity, Link, PACKET_LEN_MAX, Settings},
    sim::{Event, Network, Random},
};

pub(super) const A: NodeId = NodeId::new(0);
pub(super) const B: NodeId = NodeId::new(1);
const CLASSES: [Class; 2] = [Class::Request, Class::Reply];

/// Slots that have left the wire wake their node with their number, and the epoch above it.
const EPOCH_SHIFT: u32 = 16;
/// Other reasons to be woken.
const TIMER: u64 = 1 << 32;
const PUSH: u64 = 2 << 32;
const RESUME: u64 = 3 << 32;
/// What is left to the test.
pub(super) const TEST: u64 = 4 << 32;

pub(super) fn identity(source: NodeId) -> Identity {
    Identity { cluster: 0xC1A5, epoch: 0, source, target: if source == A { B } else { A } }
}

/// How the packets of a test are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    /// Packets of each class, each way.
    pub(super) packets: u64,
    /// Their length; any, if there is none.
    pub(super) len: Option<usize>,
    /// How often, in a million packets, a receiver takes no more for a while.
    pub(super) holding: u32,
    /// How long a sender waits between bursts, at most.
    pub(super) pause_max: Duration,
}

impl Traffic {
    /// The packet with this number.
    fn packet(self, from: NodeId, class: Class, number: u64) -> &'static [u8] {
        let mut random = Random::new(number << 8 | u64::from(from.number()) << 1 | class as u64);
        let len = self.len.unwrap_or_else(|| match random.below(8) {
            0 => 0,
            1 => PACKET_LEN_MAX,
            2..4 => random.index(PACKET_LEN_MAX + 1),
            _ => random.index(100),
        });
        &BYTES[random.index(BYTES.len() - len)..][..len]
    }
}

/// Bytes of which packets are parts: to make them anew takes longer than all else.
static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = vec![0; 64 << 10];
    Random::new(0).fill(&mut bytes);
    bytes
});

pub(super) struct End {
    node: NodeId,
    epoch: u64,
    pub(super) link: Link,
    slab: Vec<[u8; FRAME_LEN_MAX]>,
    // What the wire reads, by slot.
    on_wire: Vec<Option<Vec<u8>>>,
    timer: Option<Moment>,
    // By class.
    pushed: [u64; 2],
    received: [u64; 2],
    is_held: [bool; 2],
}

impl End {
    fn new(node: NodeId, epoch: u64, settings: &Settings) -> Self {
        let slots = settings.slots();
        let identity = Identity { epoch, ..identity(node) };
        Self {
            node,
            epoch,
            link: Link::new(Settings { identity, ..*settings }).unwrap(),
            slab: vec![[0; FRAME_LEN_MAX]; slots],
            on_wire: vec![None; slots],
            timer: None,
            pushed: [0; 2],
            received: [0; 2],
            is_held: [false; 2],
        }
    }

    fn peer(&self) -> NodeId {
        identity(self.node).target
    }

    /// Pushes a burst of packets of both classes; whether there are more to come.
    fn push(&mut self, traffic: Traffic, random: &mut Random) -> bool {
        for class in CLASSES {
            for _ in 0..random.below(20) {
                let number = self.pushed[class.index()];
                if number == traffic.packets {
                    break;
                }
                let packet = traffic.packet(self.node, class, number);
                let parts = packet.split_at(random.index(packet.len() + 1));
                let had_room = self.link.room(class) > 0;
                if !self.link.push(class, &mut self.slab, &[parts.0, parts.1]) {
                    assert!(!had_room, "there was room");
                    break;
                }
                self.pushed[class.index()] += 1;
            }
        }
        self.pushed != [traffic.packets; 2]
    }

    /// Hands the wire all that there is to send, and sets the timer.
    fn transmit(&mut self, network: &mut Network) -> u64 {
        let now = network.now();
        let mut sent = 0;
        while let Some(outgoing) = self.link.transmit(now, &mut self.slab) {
            let slot = outgoing.slot.index();
            let bytes = self.slab[slot][..outgoing.len].to_vec();
            let left = network.send(self.node, self.peer(), &bytes);
            assert!(self.on_wire[slot].replace(bytes).is_none(), "the wire reads slot {slot}");
            network.wake(self.node, left, self.epoch << EPOCH_SHIFT | slot as u64);
            sent += 1;
        }
        if let Some(deadline) = self.link.deadline() {
            assert!(deadline > now, "all was transmitted");
            if self.timer.is_none_or(|timer| deadline < timer || timer <= now) {
                self.timer = Some(deadline);
                network.wake(self.node, deadline, TIMER);
            }
        }
        sent
    }

    /// The wire has read a slot, which is as it was.
    fn sent(&mut self, tag: u64) {
        if tag >> EPOCH_SHIFT != self.epoch {
            return;
        }
        let slot = usize::try_from(tag - (self.epoch << EPOCH_SHIFT)).unwrap();
        let bytes = self.on_wire[slot].take().expect("the slot was on the wire");
        assert!(self.slab[slot][..bytes.len()] == bytes, "slot {slot} changed under the wire");
        self.link.sent(crate::link::SlotId(slot.try_into().unwrap()));
    }
}

/// Two ends, the network, and the traffic between them.
pub(super) struct Ends {
    pub(super) network: Network,
    pub(super) ends: [End; 2],
    pub(super) traffic: Traffic,
    pub(super) completed_at: Moment,
    // Frames sent and not arrived, to each end, and the most there were.
    under_way: [u64; 2],
    pub(super) under_way_max: u64,
}

impl Ends {
    pub(super) fn new(network: Network, settings: &Settings, traffic: Traffic) -> Self {
        let ends = [A, B].map(|node| End::new(node, 0, settings));
        let completed_at = Moment::START;
        let (under_way, under_way_max) = ([0; 2], 0);
        let mut this = Self { network, ends, traffic, completed_at, under_way, under_way_max };
        [A, B].into_iter().for_each(|node| this.network.wake(node, Moment::START, PUSH));
        this
    }

    /// One end crashes and starts again, the other makes a new link: what is under way between them
    /// is of an old epoch.
    pub(super) fn renew(&mut self, crashing: NodeId, settings: &Settings) {
        self.network.crash(crashing);
        self.network.restart(crashing);
        for node in [A, B] {
            let epoch = self.ends[node.index()].epoch + 1;
            self.ends[node.index()] = End::new(node, epoch, settings);
            let now = self.network.now();
            self.network.wake(node, now, PUSH);
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.ends.iter().all(|end| end.received == [self.traffic.packets; 2])
    }

    /// Goes on to the next event; returns one that is the test's, and `None` when nothing happens
    /// any more.
    pub(super) fn step(&mut self) -> Option<Option<u64>> {
        let (now, event) = self.network.next_event()?;
        let node = match event {
            Event::Frame { to, bytes, .. } => {
                self.receive(to, now, &bytes);
                to
            }
            Event::Wake { tag, .. } if tag >= TEST => return Some(Some(tag)),
            Event::Wake { node, tag } => {
                self.wake(node, now, tag);
                node
            }
        };
        let sent = self.ends[node.index()].transmit(&mut self.network);
        let peer = self.ends[node.index()].peer();
        self.under_way[peer.index()] += sent;
        self.under_way_max = self.under_way_max.max(self.under_way[peer.index()]);
        Some(None)
    }

    fn wake(&mut self, node: NodeId, now: Moment, tag: u64) {
        let end = &mut self.ends[node.index()];
        match tag {
            TIMER => end.timer = end.timer.filter(|&timer| timer != now),
            PUSH => {
                if end.push(self.traffic, self.network.random()) {
                    let limit = u64::try_from(self.traffic.pause_max.as_nanos()).unwrap();
                    let pause = Duration::from_nanos(1 + self.network.random().below(limit));
                    self.network.wake(node, now.after(pause), PUSH);
                }
            }
            RESUME => self.resume(node),
            _ => end.sent(tag),
        }
    }

    fn resume(&mut self, node: NodeId) {
        for class in CLASSES {
            let end = &mut self.ends[node.index()];
            if std::mem::take(&mut end.is_held[class.index()]) {
                self.with_deliver(node, |link, deliver| link.resume(class, deliver));
            }
        }
    }

    fn receive(&mut self, node: NodeId, now: Moment, bytes: &[u8]) {
        let under_way = &mut self.under_way[node.index()];
        *under_way = under_way.saturating_sub(1);
        let was_complete = self.is_complete();
        self.with_deliver(node, |link, deliver| _ = link.receive(now, bytes, deliver));
        if !was_complete && self.is_complete() {
            self.completed_at = now;
        }
    }

    /// Does something with a link that delivers packets, and checks them.
    fn with_deliver(
        &mut self,
        node: NodeId,
        f: impl FnOnce(&mut Link, &mut dyn FnMut(Class, &[u8]) -> bool),
    ) {
        let (traffic, network) = (self.traffic, &mut self.network);
        let End { link, received, is_held, .. } = &mut self.ends[node.index()];
        let from = identity(node).target;
        // After it has said no, a receiver gets the rest of one frame.
        let held_before = *is_held;
        f(link, &mut |class, packet| {
            assert!(!held_before[class.index()], "a class that was held is not delivered");
            let number = &mut received[class.index()];
            assert_eq!(packet, traffic.packet(from, class, *number), "{class:?} {number}");
            *number += 1;
            if !is_held[class.index()] && network.random().chance(traffic.holding) {
                is_held[class.index()] = true;
                let at = network.now().after(Duration::from_micros(network.random().below(2000)));
                network.wake(node, at, RESUME);
            }
            !is_held[class.index()]
        });
    }
}
