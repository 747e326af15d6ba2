//! An agent and its peers, of which the first is hostile: it says what it likes, byte by byte.

mod accusations;
mod floods;
mod replies;
mod requests;

use std::{io, mem, sync::Arc};

use super::*;
use crate::{
    Completion, Region,
    packet::HEAD_LEN,
    stream::{Assembler, Outlet, Source},
};

/// Who is hostile.
const HOSTILE: NodeId = NodeId::new(1);
/// Who is not.
const HONEST: NodeId = NodeId::new(2);
/// The assembler of the second stream of who is hostile.
const BESIDE: usize = 3;
/// Bytes of the agent's region.
const REGION_LEN: usize = 1 << 16;
/// What they are.
const CANARY: u8 = 0xC5;

/// What an agent has sent to a peer.
#[derive(Clone, Debug, Default)]
struct Wire {
    bytes: Arc<Mutex<Vec<u8>>>,
    // Set where the peer does not read.
    is_full: Arc<Mutex<bool>>,
}

impl Outlet for Wire {
    fn push(&mut self, head: &[u8; HEAD_LEN], payload: Source, _: usize) -> io::Result<usize> {
        if *self.is_full.lock().unwrap() {
            return Ok(0);
        }
        let mut bytes = self.bytes.lock().unwrap();
        bytes.extend_from_slice(head);
        payload.copy_to(&mut bytes);
        Ok(HEAD_LEN + payload.len())
    }

    fn flush(&mut self) -> io::Result<bool> {
        Ok(!*self.is_full.lock().unwrap())
    }

    fn close(&mut self) {}
}

/// Node 0 of three, and what its peers send and get.
struct Stage {
    agent: Agent,
    memory: Arc<Mapping>,
    // The region's.
    key: u64,
    // By node.
    wires: [Wire; 3],
    // And one more stream of the hostile peer, beside the other on the same link.
    assemblers: [Assembler; 4],
    // What the agent's program was told.
    ended: Vec<(Token, Result<u64>)>,
    messages: Vec<(NodeId, Vec<u8>)>,
}

impl Stage {
    fn new() -> Self {
        let memory = Arc::new(Mapping::new(REGION_LEN).unwrap());
        memory.write(0, &[CANARY; REGION_LEN]).unwrap();
        Self::on(memory)
    }

    /// One whose region is `memory`, full of canaries.
    fn on(memory: Arc<Mapping>) -> Self {
        let wires: [Wire; 3] = Default::default();
        let outlet = |wire: &Wire| -> Box<dyn Outlet> { Box::new(wire.clone()) };
        let outlets = vec![vec![], vec![outlet(&wires[1])], vec![outlet(&wires[2])]];
        let roster = Arc::new(Roster::new(NodeId::new(0), 3, None));
        let agent = Agent::new(roster, outlets, vec![None, None, None]);
        agent.register(Region(1), memory.clone()).unwrap();
        let mut stage = Self {
            agent,
            memory,
            key: 0,
            wires,
            assemblers: [(); 4].map(|()| Assembler::new()),
            ended: Vec::new(),
            messages: Vec::new(),
        };
        stage.key = stage.heard(HOSTILE)[0].0.key;
        assert_eq!(stage.heard(HONEST).len(), 1, "both are told of the region");
        stage
    }

    /// Has `source` say `bytes`. It is lost where it should not have, as whoever reads links sees
    /// to.
    fn say(&mut self, source: NodeId, bytes: &[u8]) -> Result {
        self.say_in(source.index(), source, bytes)
    }

    /// Has the hostile peer say `bytes` in a stream of its own, as a link over frames has two.
    fn say_beside(&mut self, bytes: &[u8]) -> Result {
        self.say_in(BESIDE, HOSTILE, bytes)
    }

    fn say_in(&mut self, stream: usize, source: NodeId, bytes: &[u8]) -> Result {
        let Self { agent, assemblers, ended, messages, .. } = self;
        let mut sink = |completion: Completion<'_>| match completion {
            Completion::Done { token, result } => ended.push((token, result)),
            Completion::Message { source, message } => messages.push((source, message.to_vec())),
        };
        let mut letters = Correspondence::new(agent, source, 0, &mut sink);
        let heard = assemblers[stream].feed(bytes, &mut letters);
        agent.flush(source);
        if heard.is_err() {
            agent.lose(source, Departure::Died);
        }
        while let Some(done) = agent.take_done() {
            ended.push(done);
        }
        heard
    }

    /// What `peer` has got since this was last called.
    fn heard(&mut self, peer: NodeId) -> Vec<(Head, Vec<u8>)> {
        let bytes = mem::take(&mut *self.wires[peer.index()].bytes.lock().unwrap());
        let (mut packets, mut rest) = (Vec::new(), &bytes[..]);
        while let Some((head, after)) = rest.split_first_chunk() {
            let head = Head::decode(head).unwrap();
            let (payload, after) = after.split_at(head.payload_len());
            packets.push((head, payload.to_vec()));
            rest = after;
        }
        packets
    }

    /// Starts `op` under the token `number`.
    fn post(&self, number: u64, op: Op) {
        let request = Request { token: Token(number), op };
        // SAFETY: callers keep the memory of `op` until the stage ends.
        assert!(unsafe { self.agent.post(op.node(), &request) });
    }

    fn is_closed(&self, peer: NodeId) -> bool {
        self.agent.peer(peer).is_none_or(|peer| peer.is_closed())
    }

    fn own(&self) -> Vec<u8> {
        let mut bytes = vec![0; REGION_LEN];
        self.memory.read(0, &mut bytes).unwrap();
        bytes
    }

    /// Checks that nothing was written, and that an honest peer is served.
    fn check_unharmed(&mut self) {
        assert!(self.own().iter().all(|byte| *byte == CANARY), "nothing is written");
        let read = Head { request: 77, ..packet(Kind::Read, self.key, 8) };
        self.say(HONEST, &[&read.encode()[..], &16_u64.to_le_bytes()].concat()).unwrap();
        let heard = self.heard(HONEST);
        let (head, payload) = heard.last().expect("an answer");
        assert_eq!((head.kind, head.request), (Kind::Bytes, 77));
        assert_eq!(payload[..], [CANARY; 16]);
    }
}

/// A head that is right for the requests of eight bytes.
fn packet(kind: Kind, key: u64, offset: u64) -> Head {
    Head { len: 8, key, offset, ..Head::new(kind) }
}

/// A packet, as it travels.
fn bytes(head: Head, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap();
    [&Head { len, ..head }.encode()[..], payload].concat()
}
