//! Behaviour of the two ends together, by hand and over the simulated network.

mod cable;
mod ends;
mod seeds;

use std::time::Duration;

use self::ends::{A, B, identity};
use super::{frame::HEAD_LEN, *};
use crate::{Error, NodeId};

const NOW: Moment = Moment(1_000_000);

fn settings() -> Settings {
    Settings::new(identity(A))
}

/// An end whose wire has read a frame as soon as it is told to.
struct End {
    link: Link,
    slab: Vec<[u8; FRAME_LEN_MAX]>,
    delivered: Vec<Vec<u8>>,
}

impl End {
    fn new(settings: Settings) -> Self {
        let slab = vec![[0; FRAME_LEN_MAX]; settings.slots()];
        Self { link: Link::new(settings).unwrap(), slab, delivered: Vec::new() }
    }

    fn pair(settings: Settings) -> [Self; 2] {
        [A, B].map(|node| Self::new(Settings { identity: identity(node), ..settings }))
    }

    fn push(&mut self, class: Class, packet: &[u8]) -> bool {
        self.link.push(class, &mut self.slab, &[packet])
    }

    /// The frames that are to be sent now.
    fn frames(&mut self, now: Moment) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while let Some(Outgoing { slot, len }) = self.link.transmit(now, &mut self.slab) {
            frames.push(self.slab[slot.index()][..len].to_vec());
            self.link.sent(slot);
        }
        frames
    }

    fn receive(&mut self, now: Moment, frames: &[Vec<u8>]) {
        for frame in frames {
            self.link.receive(now, frame, &mut |_, packet| {
                self.delivered.push(packet.to_vec());
                true
            });
        }
    }

    fn refused(&self, refusal: Refusal) -> u64 {
        self.link.statistics().refused[refusal as usize]
    }
}

/// Lets the ends speak until they have nothing to say.
fn settle(one: &mut End, other: &mut End, mut now: Moment) {
    while let Some(deadline) = one.link.deadline().into_iter().chain(other.link.deadline()).min() {
        now = now.max(deadline);
        other.receive(now, &one.frames(now));
        one.receive(now, &other.frames(now));
    }
}

#[test]
fn small_packets_share_a_frame_and_a_long_one_fills_one() {
    let [mut one, mut other] = End::pair(settings());
    for packet in [&b""[..], b"short", &[7; PACKET_LEN_MAX], b"last"] {
        assert!(one.push(Class::Request, packet));
    }
    let frames = one.frames(NOW);
    assert_eq!(frames.iter().map(Vec::len).max(), Some(FRAME_LEN_MAX));
    assert_eq!(frames.len(), 3);
    other.receive(NOW, &frames);
    assert_eq!(other.delivered, [&b""[..], b"short", &[7; PACKET_LEN_MAX], b"last"]);
}

#[test]
fn a_lone_packet_costs_a_frame_and_a_report_and_then_there_is_silence() {
    let [mut one, mut other] = End::pair(settings());
    assert_eq!((one.link.deadline(), one.link.silence(NOW)), (None, Duration::ZERO));
    one.push(Class::Request, b"packet");
    settle(&mut one, &mut other, NOW);
    assert_eq!((one.link.statistics().sent, other.link.statistics().sent), (1, 1));
    assert_eq!((one.link.deadline(), other.link.deadline()), (None, None));
    assert_eq!(one.link.silence(Moment(u64::MAX)), Duration::ZERO);
}

#[test]
fn a_lost_frame_is_sent_again_at_once_and_so_is_its_repetition() {
    let [mut one, mut other] = End::pair(settings());
    let mut lose_first = |one: &mut End| {
        one.push(Class::Request, &[1; PACKET_LEN_MAX]);
        one.push(Class::Request, &[2; PACKET_LEN_MAX]);
        let frames = one.frames(NOW);
        other.receive(NOW, &frames[1..]);
        one.receive(NOW, &other.frames(NOW));
        frames.len()
    };
    assert_eq!(lose_first(&mut one), 2);
    // The first frame again, which is lost again, and two new ones.
    assert_eq!(lose_first(&mut one), 3);
    let frames = one.frames(NOW);
    assert_eq!(frames.len(), 1, "what has arrived is not sent again");
    other.receive(NOW, &frames);
    assert_eq!(other.delivered.iter().map(|packet| packet[0]).collect::<Vec<_>>(), [1, 2, 1, 2]);
    assert_eq!(one.link.statistics().timeouts, 0);
}

#[test]
fn a_frame_that_is_overtaken_by_few_is_not_taken_for_lost() {
    let [mut one, mut other] = End::pair(Settings { reordering: 2, ..settings() });
    for _ in 0..4 {
        one.push(Class::Request, &[1; PACKET_LEN_MAX]);
    }
    let frames = one.frames(NOW);
    other.receive(NOW, &frames[1..3]);
    assert!(other.frames(NOW).is_empty());
    let later = NOW.after(settings().answer_delay);
    one.receive(later, &other.frames(later));
    assert!(one.frames(later).is_empty());
    other.receive(later, &frames[3..]);
    one.receive(later, &other.frames(later));
    assert_eq!(one.frames(later).len(), 1);
}

#[test]
fn a_gap_is_reported_though_packets_tell_what_was_delivered() {
    let [mut one, mut other] = End::pair(Settings { reordering: 2, ..settings() });
    for _ in 0..2 {
        one.push(Class::Request, &[1; PACKET_LEN_MAX]);
    }
    other.receive(NOW, &one.frames(NOW)[1..]);
    other.push(Class::Request, b"packet");
    assert_eq!(other.frames(NOW).len(), 1);
    assert_eq!(other.frames(NOW.after(settings().answer_delay)).len(), 1);
    assert_eq!(other.link.statistics().reports, 1);
}

#[test]
fn a_frame_that_comes_twice_before_its_turn_is_kept_once() {
    let [mut one, mut other] = End::pair(settings());
    for byte in 0..2 {
        one.push(Class::Request, &[byte; PACKET_LEN_MAX]);
    }
    let frames = one.frames(NOW);
    other.receive(NOW, &[frames[1].clone(), frames[1].clone(), frames[0].clone()]);
    let &Statistics { early, duplicates, .. } = other.link.statistics();
    assert_eq!((early, duplicates), (1, 1));
    assert_eq!(other.delivered.iter().map(|packet| packet[0]).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_repetition_that_is_under_way_is_not_repeated() {
    let [mut one, mut other] = End::pair(settings());
    for _ in 0..3 {
        one.push(Class::Request, &[1; PACKET_LEN_MAX]);
    }
    let frames = one.frames(NOW);
    other.receive(NOW, &frames[1..2]);
    one.receive(NOW, &other.frames(NOW));
    assert_eq!(one.frames(NOW).len(), 1);
    other.receive(NOW, &frames[2..]);
    let later = NOW.after(settings().answer_delay);
    let reports = other.frames(later);
    assert_eq!(reports.len(), 1);
    one.receive(later, &reports);
    assert!(one.frames(later).is_empty());
}

#[test]
fn a_peer_that_is_gone_is_silence_and_ever_rarer_attempts() {
    let [mut one, _] = End::pair(settings());
    one.push(Class::Reply, b"packet");
    let mut now = NOW;
    let mut attempts = 0;
    while one.link.silence(now) < Duration::from_secs(3) {
        attempts += one.frames(now).len();
        let deadline = one.link.deadline().unwrap();
        assert!(deadline > now, "nobody is called in vain");
        now = deadline;
    }
    assert!((30..40).contains(&attempts), "{attempts}");
}

#[test]
fn a_slot_is_not_used_again_while_the_wire_reads_it() {
    let [mut one, mut other] = End::pair(Settings { requests: 1, ..settings() });
    one.push(Class::Request, b"first");
    let Outgoing { slot, len } = one.link.transmit(NOW, &mut one.slab).unwrap();
    other.receive(NOW, &[one.slab[slot.index()][..len].to_vec()]);
    let later = NOW.after(settings().answer_delay);
    one.receive(later, &other.frames(later));
    assert_eq!(one.link.room(Class::Request), 0);
    assert!(!one.push(Class::Request, b"second"));
    one.link.sent(slot);
    assert_eq!(one.link.room(Class::Request), 1);
    assert!(one.push(Class::Request, b"second"));
}

#[test]
fn a_frame_that_the_wire_still_reads_is_not_sent_again() {
    let [mut one, _] = End::pair(settings());
    one.push(Class::Request, b"packet");
    let outgoing = one.link.transmit(NOW, &mut one.slab).unwrap();
    let mut now = NOW;
    for _ in 0..10 {
        now = one.link.deadline().unwrap();
        assert_eq!(one.link.transmit(now, &mut one.slab), None);
    }
    assert!(one.link.silence(now) > Duration::from_millis(100));
    one.link.sent(outgoing.slot);
    assert_eq!(one.frames(now).len(), 1);
}

#[test]
fn requests_that_wait_do_not_stop_replies() {
    let [mut one, mut other] = End::pair(settings());
    while one.push(Class::Request, &[1; PACKET_LEN_MAX]) {}
    assert_eq!(one.link.room(Class::Request), 0);
    let mut taken = [0; Class::COUNT];
    let mut deliver = |class: Class, _: &[u8]| {
        taken[class.index()] += 1;
        class == Class::Reply
    };
    for number in 0..1000 {
        assert!(one.push(Class::Reply, &[2; PACKET_LEN_MAX]), "reply {number}");
        let frames = one.frames(NOW);
        frames.iter().for_each(|frame| _ = other.link.receive(NOW, frame, &mut deliver));
        one.receive(NOW, &other.frames(NOW));
    }
    other.link.resume(Class::Request, &mut deliver);
    assert_eq!(taken, [2, 1000]);
}

#[test]
fn a_receiver_that_takes_no_more_stops_the_sender_and_is_asked_rarely() {
    let [mut one, mut other] = End::pair(settings());
    let mut now = NOW;
    let mut sent = 0;
    while now < NOW.after(Duration::from_secs(10)) {
        while one.push(Class::Request, &[1; PACKET_LEN_MAX]) {}
        let frames = one.frames(now);
        sent += frames.len();
        frames.iter().for_each(|frame| _ = other.link.receive(now, frame, &mut |_, _| false));
        one.receive(now, &other.frames(now));
        assert!(one.link.silence(now) < Duration::from_millis(101), "the peer is there");
        now = one.link.deadline().unwrap().min(other.link.deadline().unwrap_or(Moment(u64::MAX)));
    }
    // The frame that was delivered, a window, and ten questions a second.
    let window = usize::from(settings().requests);
    assert!((1 + window..1 + window + 130).contains(&sent), "{sent}");
    let mut taken = 0;
    let mut deliver = |_: Class, _: &[u8]| {
        taken += 1;
        true
    };
    other.link.resume(Class::Request, &mut deliver);
    assert_eq!(taken, window);
    one.receive(now, &other.frames(now));
    assert_eq!(one.link.room(Class::Request), window);
    // That the peer has waited says nothing of the time that an answer takes.
    one.push(Class::Request, b"packet");
    one.frames(now);
    assert!(one.link.deadline().unwrap() <= now.after(settings().resend_first));
}

#[test]
fn frames_of_another_epoch_cluster_or_node_are_refused() {
    let ours = identity(A);
    let strangers = [
        Identity { epoch: ours.epoch + 1, ..ours },
        Identity { cluster: ours.cluster + 1, ..ours },
        Identity { source: NodeId::new(5), ..ours },
        Identity { target: NodeId::new(5), ..ours },
        ours.reversed(),
    ];
    let [_, mut other] = End::pair(settings());
    for (number, identity) in strangers.into_iter().enumerate() {
        let mut stranger = End::new(Settings { identity, ..settings() });
        stranger.push(Class::Request, b"late");
        other.receive(NOW, &stranger.frames(NOW));
        assert_eq!(other.refused(Refusal::Stranger), number as u64 + 1);
    }
    assert!(other.delivered.is_empty());
    assert_eq!(other.link.deadline(), None);
}

#[test]
fn what_cannot_be_true_is_refused_and_changes_nothing() {
    let [mut one, mut other] = End::pair(settings());
    one.push(Class::Request, b"packet");
    let frames = one.frames(NOW);
    let sound = frame::decode(&frames[0]).unwrap();
    let lies: [fn(&mut Head); 5] = [
        |head| head.transmission = 0,
        |head| head.sequence = u64::MAX,
        |head| head.acknowledgement.seen = 1,
        |head| head.acknowledgement.next[0] = u64::MAX,
        |head| head.acknowledgement.next[1] = 1,
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let (mut head, mut bytes) = (sound.head, [0; FRAME_LEN_MAX]);
        lie(&mut head);
        bytes[HEAD_LEN..HEAD_LEN + sound.payload.len()].copy_from_slice(sound.payload);
        let len = frame::seal(&mut bytes, &head, sound.payload.len());
        other.receive(NOW, &[bytes[..len].to_vec()]);
        assert_eq!(other.refused(Refusal::Impossible), number as u64 + 1);
    }
    assert_eq!(other.link.deadline(), None);
    other.receive(NOW, &frames);
    assert_eq!(other.delivered, [b"packet"]);
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    for (field, settings) in [
        ("requests", Settings { requests: 0, ..settings() }),
        ("requests", Settings { requests: 100, ..settings() }),
        ("replies", Settings { replies: 2 * frame::WINDOW_MAX, ..settings() }),
        ("resend_min", Settings { resend_min: Duration::from_secs(1), ..settings() }),
        ("resend_min", Settings { resend_min: Duration::ZERO, ..settings() }),
    ] {
        let error = Link::new(settings).unwrap_err();
        assert!(matches!(error, Error::Config { field: named, .. } if named == field), "{error}");
    }
}
