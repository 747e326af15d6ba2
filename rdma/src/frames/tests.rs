//! What a peer may send in which stream of a link over frames.

use std::collections::VecDeque;

use super::*;
use crate::{
    NodeId, Token,
    link::{FRAME_LEN_MAX, Identity, Settings},
    packet::Head,
    stream::Place,
};

/// Brings the frames that it was given, and no other.
#[derive(Debug)]
struct Mail {
    start: Instant,
    frames: VecDeque<Vec<u8>>,
    slab: Box<Slab>,
}

impl Wire for Mail {
    fn now(&self) -> Instant {
        self.start
    }

    fn slab(&mut self) -> &mut Slab {
        &mut self.slab
    }

    fn send(&mut self, _: SlotId, _: usize) -> bool {
        false
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        self.frames.drain(..).for_each(|frame| sink(Event::Frame(&frame)));
    }
}

/// Keeps what has come.
#[derive(Default)]
struct Keeper(Vec<Kind>);

impl Inbox for Keeper {
    fn open(&mut self, _: &Head) -> Result<Place> {
        Ok(Place::Whole)
    }

    fn close(&mut self, head: &Head, _: &[u8]) -> Result {
        self.0.push(head.kind);
        Ok(())
    }

    fn end(&mut self, _: Token, _: Result<u64>) {
        unreachable!("frames carry out nothing");
    }
}

fn settings(source: u16, target: u16) -> Settings {
    let [source, target] = [source, target].map(NodeId::new);
    Settings::new(Identity { cluster: 1, epoch: 1, source, target })
}

fn slab() -> Box<Slab> {
    vec![[0; FRAME_LEN_MAX]; settings(0, 1).slots()].into_boxed_slice()
}

/// The next frame that `link` has to send.
fn next_frame(link: &mut Link, slots: &mut Slab) -> Vec<u8> {
    // Late enough for whatever is due.
    let now = Moment::START.after(Duration::from_secs(1));
    let frame = link.transmit(now, slots).expect("something to send");
    slots[frame.slot.index()][..frame.len].to_vec()
}

/// The receiving end of `link`, to which `frame` has come.
fn receiver(link: Link, frame: Vec<u8>) -> Receiver<Mail> {
    let wire = Mail { start: Instant::now(), frames: VecDeque::from([frame]), slab: slab() };
    ends(wire, link).1
}

/// What is received of a peer that sends a packet of `kind`, which has no payload, in `class`.
fn receive(class: Class, kind: Kind) -> Result<Vec<Kind>> {
    let (mut hostile, mut slots) = (Link::new(settings(1, 0)).unwrap(), slab());
    assert!(hostile.push(class, &mut slots, &[&Head::new(kind).encode()]));
    let frame = next_frame(&mut hostile, &mut slots);
    let mut keeper = Keeper::default();
    receiver(Link::new(settings(0, 1)).unwrap(), frame).receive(&mut keeper)?;
    Ok(keeper.0)
}

#[test]
fn a_packet_in_the_stream_of_others_loses_its_sender() {
    for (class, kind) in [(Class::Request, Kind::Beat), (Class::Reply, Kind::Done)] {
        assert_eq!(receive(class, kind).unwrap(), [kind]);
    }
    for kind in [Kind::Beat, Kind::Goodbye, Kind::Message, Kind::Write] {
        receive(Class::Reply, kind).unwrap_err();
    }
    for kind in [Kind::Done, Kind::Bytes] {
        receive(Class::Request, kind).unwrap_err();
    }
}

#[test]
fn an_answer_is_something_that_has_come_and_a_stranger_is_nothing() {
    let link = |source, target| (Link::new(settings(source, target)).unwrap(), slab());
    for (peer, is_heard) in [(1, true), (2, false)] {
        let (mut own, mut slots) = link(0, peer);
        assert!(own.push(Class::Reply, &mut slots, &[&Head::new(Kind::Done).encode()]));
        let frame = next_frame(&mut own, &mut slots);
        let (mut other, mut other_slots) = link(peer, 0);
        assert!(other.receive(Moment::START, &frame, &mut |_, _| true));
        let answer = next_frame(&mut other, &mut other_slots);
        assert_eq!(other.statistics().reports, 1, "it has nothing else to say");
        let own = if is_heard { own } else { link(0, 1).0 };
        let mut keeper = Keeper::default();
        let received = receiver(own, answer).receive(&mut keeper).unwrap();
        assert_eq!((received > 0, keeper.0.len()), (is_heard, 0));
    }
}
