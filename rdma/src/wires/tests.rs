//! A node and two peers that speak the protocol by hand, over loopback.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    ptr::NonNull,
    time::Duration,
};

use super::*;
use crate::{
    Error, Mapping, Op, Presence, Region, RemoteAddr,
    conformance::{plain, soon},
    packet::{HEAD_LEN, Head, Kind},
    sim::Random,
};

/// Bytes of the node's region.
const REGION_LEN: usize = 1 << 16;
/// What they are.
const CANARY: u8 = 0xC5;

/// Node 0 of three, and the others' ends of its wires.
struct Stage {
    wires: Wires,
    roster: Arc<Roster>,
    memory: Arc<Mapping>,
    // The region's.
    key: u64,
    hostile: TcpStream,
    honest: TcpStream,
    ended: Vec<(Token, Result<u64>)>,
    messages: Vec<Vec<u8>>,
}

const HOSTILE: NodeId = NodeId::new(1);
const HONEST: NodeId = NodeId::new(2);

impl Stage {
    fn new() -> Self {
        let ([one, hostile], [two, honest]) = (plain(), plain());
        let wire = |connection| Some(Wire { connection, cables: Err(String::new()) });
        let roster = Arc::new(Roster::new(NodeId::new(0), 3, None));
        let (bell, _) = Bell::new().unwrap();
        let wires = Wires::new(roster.clone(), vec![None, wire(one), wire(two)], bell).unwrap();
        let memory = Arc::new(Mapping::new(REGION_LEN).unwrap());
        memory.write(0, &[CANARY; REGION_LEN]).unwrap();
        wires.agent.register(Region(1), memory.clone()).unwrap();
        let (hostile, honest) = (hostile.stream, honest.stream);
        let (ended, messages) = Default::default();
        let mut stage = Self { wires, roster, memory, key: 0, hostile, honest, ended, messages };
        stage.key = hear(&mut stage.hostile).0.key;
        assert_eq!(hear(&mut stage.honest).0.kind, Kind::Region);
        stage
    }

    /// Takes in what has come.
    fn poll(&mut self) {
        let Self { wires, ended, messages, .. } = self;
        wires.poll(&mut |completion| match completion {
            Completion::Done { token, result } => ended.push((token, result)),
            Completion::Message { message, .. } => messages.push(message.to_vec()),
        });
    }

    /// Polls until `ready`, with signs of life.
    fn poll_until(&mut self, ready: &dyn Fn(&Self) -> bool) {
        let deadline = soon();
        while !ready(self) {
            assert!(Instant::now() < deadline, "in vain");
            self.poll();
            let mut lead = self.wires.lead.take().expect("nobody else leads");
            self.wires.beat(&mut lead, Instant::now());
        }
    }

    fn has_lost(&self, peer: NodeId) -> bool {
        self.roster.presence(peer) == Presence::Died
    }

    /// Checks that nothing was written, and that the honest peer is heard and served.
    fn check_unharmed(&mut self) {
        let count = self.messages.len();
        say(&mut self.honest, Head::new(Kind::Message), b"hello");
        self.poll_until(&|stage| stage.messages.len() > count);
        assert_eq!(self.messages[count], b"hello");
        let read = Head { request: 9, key: self.key, ..Head::new(Kind::Read) };
        say(&mut self.honest, read, &16_u64.to_le_bytes());
        let answer = loop {
            self.poll_until(&|stage| is_readable(&stage.honest));
            let (head, payload) = hear(&mut self.honest);
            if head.kind == Kind::Bytes {
                break payload;
            }
        };
        assert_eq!(answer, [CANARY; 16]);
        let mut all = vec![0; REGION_LEN];
        self.memory.read(0, &mut all).unwrap();
        assert!(all.into_iter().all(|byte| byte == CANARY), "nothing was written");
        assert!(!self.has_lost(HONEST));
    }
}

/// Says a packet.
fn say(stream: &mut TcpStream, head: Head, payload: &[u8]) {
    let len = u32::try_from(payload.len()).unwrap();
    stream.write_all(&Head { len, ..head }.encode()).unwrap();
    stream.write_all(payload).unwrap();
}

/// Waits for the next packet.
fn hear(stream: &mut TcpStream) -> (Head, Vec<u8>) {
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut head = [0; HEAD_LEN];
    stream.read_exact(&mut head).unwrap();
    let head = Head::decode(&head).unwrap();
    let mut payload = vec![0; head.payload_len()];
    stream.read_exact(&mut payload).unwrap();
    (head, payload)
}

fn is_readable(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let is_there = stream.peek(&mut [0]).is_ok();
    stream.set_nonblocking(false).unwrap();
    is_there
}

#[test]
fn who_speaks_another_protocol_is_lost() {
    let beats = [&Head::new(Kind::Beat).encode()[..], &[0xFF; 40]].concat();
    for bytes in [&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], &[0; 64], &beats] {
        let mut stage = Stage::new();
        stage.hostile.write_all(bytes).unwrap();
        stage.poll_until(&|stage| stage.has_lost(HOSTILE));
        stage.check_unharmed();
    }
}

#[test]
fn who_ends_within_a_packet_is_lost() {
    let head = Head { len: 5000, request: 1, ..Head::new(Kind::Write) }.encode();
    for len in [0, 1, HEAD_LEN - 1, HEAD_LEN] {
        let mut stage = Stage::new();
        stage.hostile.write_all(&head[..len]).unwrap();
        stage.hostile.shutdown(Shutdown::Write).unwrap();
        stage.poll_until(&|stage| stage.has_lost(HOSTILE));
        stage.check_unharmed();
    }
}

#[test]
fn who_falls_silent_within_a_packet_keeps_nobody_waiting_and_is_lost() {
    let mut stage = Stage::new();
    stage.hostile.write_all(&Head::new(Kind::Beat).encode()[..20]).unwrap();
    for _ in 0..100 {
        stage.check_unharmed();
    }
    assert!(!stage.has_lost(HOSTILE), "it has some time");
    let deadline = soon();
    while !stage.has_lost(HOSTILE) {
        assert!(Instant::now() < deadline);
        say(&mut stage.honest, Head::new(Kind::Beat), &[]);
        let mut lead = stage.wires.lead.take().unwrap();
        stage.wires.beat(&mut lead, Instant::now());
        stage.wires.gather(&mut lead, Instant::now());
        stage.wires.block(&mut lead, Instant::now() + Duration::from_millis(100), &mut || false);
    }
    stage.check_unharmed();
}

#[test]
fn who_asks_without_reading_the_answers_is_lost() {
    let mut stage = Stage::new();
    stage.hostile.set_nonblocking(true).unwrap();
    let head = Head { len: 8, request: 1, key: stage.key, ..Head::new(Kind::Read) };
    let read = [&head.encode()[..], &(REGION_LEN as u64).to_le_bytes()].concat();
    let deadline = soon();
    let mut sent = 0;
    while !stage.has_lost(HOSTILE) {
        assert!(Instant::now() < deadline, "it may not ask for ever");
        match stage.hostile.write(&read[sent..]) {
            Ok(count) => sent = (sent + count) % read.len(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
        stage.poll();
    }
    stage.poll_until(&|stage| stage.has_lost(HOSTILE));
    stage.check_unharmed();
}

#[test]
fn noise_harms_nobody() {
    for seed in 0..20 {
        let mut stage = Stage::new();
        let mut noise = vec![0; 100_000];
        Random::new(seed).fill(&mut noise);
        // It may be turned away before it has said all.
        _ = stage.hostile.write_all(&noise);
        stage.poll_until(&|stage| stage.has_lost(HOSTILE));
        stage.check_unharmed();
    }
}

#[test]
fn what_a_node_sends_that_is_lost_by_hearsay_is_not_taken_in() {
    const HALF: usize = 10_000;
    let mut stage = Stage::new();
    let region = Head { key: 7, offset: 1, ..Head::new(Kind::Region) };
    say(&mut stage.hostile, region, &(1_u64 << 20).to_le_bytes());
    stage.poll_until(&|stage| stage.wires.agent.region_len(HOSTILE, Region(1)).is_some());
    let target = Mapping::new(2 * HALF).unwrap();
    let source = RemoteAddr { node: HOSTILE, region: Region(1), offset: 0 };
    let read =
        Op::Read { source, target: NonNull::slice_from_raw_parts(target.as_ptr(), 2 * HALF) };
    // SAFETY: the target is a mapping that outlives the stage, and is looked at by copies only.
    assert!(unsafe { stage.wires.post(HOSTILE, &Request { token: Token(1), op: read }) });
    let (asked, _) = hear(&mut stage.hostile);
    let len = u32::try_from(2 * HALF).unwrap();
    let bytes = Head { len, request: asked.request, ..Head::new(Kind::Bytes) };
    stage.hostile.write_all(&bytes.encode()).unwrap();
    stage.hostile.write_all(&[1; HALF]).unwrap();
    let read = |offset: usize| {
        let mut byte = [0];
        target.read(offset as u64, &mut byte).unwrap();
        byte[0]
    };
    stage.poll_until(&|_| read(HALF - 1) == 1);
    let lost = Head { offset: u64::from(HOSTILE.number()), ..Head::new(Kind::Lost) };
    // Both are there when the links are next read.
    say(&mut stage.honest, lost, &[]);
    stage.poll_until(&|stage| !stage.ended.is_empty());
    assert!(matches!(stage.ended[..], [(Token(1), Err(Error::PeerLost { node: HOSTILE, .. }))]));
    _ = stage.hostile.write_all(&[2; HALF]);
    for _ in 0..10 {
        stage.check_unharmed();
    }
    assert_eq!(read(HALF), 0, "the memory is not the fabric's any more");
    assert_eq!(stage.ended.len(), 1);
}
