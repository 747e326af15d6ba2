//! What a node does: operations at random on all nodes, each checked when it has ended.

use std::{collections::HashMap, ops::Range, ptr::NonNull};

use pangea_rdma::{
    Completion, Error, MESSAGE_LEN_MAX, Mapping, NodeId, Op, Presence, Region, RemoteAddr, Request,
    Token,
    sim::{Cluster, Random},
};

use crate::{
    fate::any,
    ledger::{
        CHAIN, COUNTER, Ledger, REGION_LEN, SLOT_LEN, WRITES_MAX, check_bytes, signal_at, slot_at,
    },
};

/// The region of every node.
pub(crate) const REGION: Region = Region(1);
/// Requests that a program has open, at most.
const OPEN_MAX: usize = 24;

/// What an operation is for.
#[derive(Debug)]
enum Deed {
    /// Of a slot, from a place on: what it must have at least.
    Read {
        writer: NodeId,
        start: usize,
        least: Vec<u8>,
    },
    Write {
        start: usize,
    },
    Add,
    Swap {
        value: u64,
    },
    CompareSwap {
        expected: u64,
        value: u64,
    },
    Signal {
        value: u64,
    },
    Send,
    /// An addition that must be refused.
    Wrong {
        offset: u64,
    },
}

/// An operation that has not ended.
#[derive(Debug)]
struct Open {
    deed: Deed,
    target: NodeId,
    // What is written, sent, or read to.
    bytes: Box<[u8]>,
}

impl Open {
    /// What it is for the fabric, asked by `node`.
    fn op(&mut self, node: NodeId) -> Op {
        let home = self.target;
        let at = |offset| RemoteAddr { node: home, region: REGION, offset };
        let slot = |writer, start: usize| at(slot_at(writer) + start as u64);
        let bytes = NonNull::from(&mut self.bytes[..]);
        match self.deed {
            Deed::Read { writer, start, .. } => {
                Op::Read { source: slot(writer, start), target: bytes }
            }
            Deed::Write { start } => Op::Write { source: bytes, target: slot(node, start) },
            Deed::Add => Op::FetchAdd { target: at(COUNTER), addend: 1 },
            Deed::Swap { value } => Op::Swap { target: at(CHAIN), value },
            Deed::CompareSwap { expected, value } => {
                Op::CompareSwap { target: at(CHAIN), expected, desired: value }
            }
            Deed::Signal { value } => Op::Signal { target: at(signal_at(node)), value },
            Deed::Send => Op::Send { target: home, message: bytes },
            Deed::Wrong { offset } => Op::FetchAdd { target: at(offset), addend: 1 },
        }
    }
}

/// The program of a node.
#[derive(Debug)]
pub(crate) struct Program {
    node: NodeId,
    open: HashMap<u64, Open>,
    posted: u64,
    // Operations that it will still do.
    budget: u32,
    // By home: the last value of its chain that was seen.
    chains: Vec<u64>,
}

impl Program {
    pub(crate) fn new(node: NodeId, nodes: u16, budget: u32) -> Self {
        let chains = vec![0; usize::from(nodes)];
        Self { node, open: HashMap::new(), posted: 0, budget, chains }
    }

    /// Whether it has done all that it wanted.
    pub(crate) fn is_over(&self) -> bool {
        self.budget == 0 && self.open.is_empty()
    }

    /// The node is down: nobody knows what became of what it had asked.
    pub(crate) fn die(&mut self, ledger: &mut Ledger) {
        self.budget = 0;
        for (_, open) in self.open.drain() {
            give_up(ledger, &open);
        }
    }

    /// Takes what has come, and posts a few operations; whether it did.
    pub(crate) fn turn(
        &mut self,
        cluster: &mut Cluster,
        ledger: &mut Ledger,
        memory: &Mapping,
        random: &mut Random,
    ) -> bool {
        self.poll(cluster, ledger);
        for writer in NodeId::all(cluster.nodes()) {
            ledger.check_signal(memory, self.node, writer);
        }
        let before = self.budget;
        for _ in 0..=random.below(8) {
            let has_room = self.budget > 0 && self.open.len() < OPEN_MAX;
            if !has_room || !self.post(cluster, ledger, random) {
                break;
            }
            self.budget -= 1;
        }
        self.budget < before
    }

    pub(crate) fn poll(&mut self, cluster: &mut Cluster, ledger: &mut Ledger) {
        let (node, epoch) = (self.node, cluster.epoch(self.node));
        let mut lost = Vec::new();
        cluster.poll(node, &mut |completion| match completion {
            Completion::Message { source, message } => ledger.receive(source, node, message),
            Completion::Done { token, result } => {
                let open = self.open.remove(&token.0);
                let open = open.unwrap_or_else(|| panic!("{token:?} has ended before"));
                match result {
                    Ok(before) => finish(ledger, node, &mut self.chains, &open, before),
                    Err(Error::PeerLost { node: who, epoch: then }) => {
                        assert_eq!(who, open.target, "who is asked is who is lost");
                        assert!(then <= epoch, "an epoch that has begun");
                        give_up(ledger, &open);
                        lost.push(who);
                    }
                    Err(Error::OutOfBounds { .. } | Error::Unaligned { .. })
                        if matches!(open.deed, Deed::Wrong { .. }) => {}
                    Err(error) => panic!("{:?}: {error}", open.deed),
                }
            }
            other => panic!("{other:?}"),
        });
        for who in lost {
            assert_ne!(cluster.presence(node, who), Presence::Here, "{who} is lost");
        }
    }

    /// Posts an operation; `false` where there is no room for it.
    fn post(&mut self, cluster: &mut Cluster, ledger: &mut Ledger, random: &mut Random) -> bool {
        let nodes = cluster.nodes();
        let mut open = self.plan(any(nodes, random), any(nodes, random), ledger, random);
        let (op, token) = (open.op(self.node), self.posted);
        // SAFETY: the bytes are kept, untouched, until the request ends or the node is down.
        let count = unsafe { cluster.post(self.node, &[Request { token: Token(token), op }]) };
        if count.expect("a node that is up has a turn") == 0 {
            return false;
        }
        self.posted += 1;
        note(ledger, self.node, &open);
        assert!(self.open.insert(token, open).is_none());
        true
    }

    /// An operation on `target`, at random; if it reads, then what `writer` has written.
    fn plan(
        &self,
        target: NodeId,
        writer: NodeId,
        ledger: &mut Ledger,
        random: &mut Random,
    ) -> Open {
        let value = u64::from(self.node.number()) << 32 | (self.posted + 1);
        let pair = ledger.pair(target, self.node);
        let mut bytes = Vec::new();
        let deed = match random.below(16) {
            0..4 => {
                let (pair, range) = (ledger.pair(target, writer), range(random));
                // One's own requests are carried out in order.
                let least = if writer == self.node { &pair.posted } else { &pair.done };
                bytes = vec![0; range.len()];
                Deed::Read { writer, start: range.start, least: least[range].to_vec() }
            }
            4..8 if pair.writes < WRITES_MAX => {
                let range = range(random);
                bytes = vec![pair.writes + 1; range.len()];
                Deed::Write { start: range.start }
            }
            8..10 => Deed::Add,
            10 => Deed::Swap { value },
            11 => Deed::CompareSwap { expected: self.chains[target.index()], value },
            12 => Deed::Signal { value: pair.signals.len() as u64 + 1 },
            13 => {
                let is_odd = random.chance(500_000);
                Deed::Wrong { offset: if is_odd { 4 } else { REGION_LEN as u64 } }
            }
            _ => {
                let number = pair.sent.to_le_bytes();
                let len = if random.chance(100_000) { MESSAGE_LEN_MAX } else { random.index(200) };
                bytes = number.to_vec();
                bytes.resize(len.max(number.len()), number[0]);
                Deed::Send
            }
        };
        Open { deed, target, bytes: bytes.into() }
    }
}

/// Some part of a slot.
fn range(random: &mut Random) -> Range<usize> {
    let start = random.index(SLOT_LEN);
    let len = if random.chance(200_000) { SLOT_LEN } else { 100 };
    start..start + random.index(len.min(SLOT_LEN - start) + 1)
}

/// Takes note of what was posted.
fn note(ledger: &mut Ledger, node: NodeId, open: &Open) {
    match open.deed {
        Deed::Write { start } => {
            let pair = ledger.pair(open.target, node);
            pair.writes += 1;
            pair.posted[start..][..open.bytes.len()].copy_from_slice(&open.bytes);
        }
        Deed::Signal { .. } => {
            let pair = ledger.pair(open.target, node);
            pair.signals.push(pair.posted.clone());
        }
        Deed::Send => ledger.pair(open.target, node).sent += 1,
        Deed::Swap { value } | Deed::CompareSwap { value, .. } => {
            ledger.words(open.target).values.insert(value);
        }
        Deed::Read { .. } | Deed::Add | Deed::Wrong { .. } => {}
    }
}

/// Takes note that an operation of `node` was done, and checks what it has brought.
fn finish(ledger: &mut Ledger, node: NodeId, chains: &mut [u64], open: &Open, before: u64) {
    match &open.deed {
        Deed::Read { writer, start, least } => {
            let most = &ledger.pair(open.target, *writer).posted[*start..];
            check_bytes(&open.bytes, least, most);
        }
        Deed::Write { start } => {
            let done = &mut ledger.pair(open.target, node).done[*start..];
            done.iter_mut().zip(&open.bytes).for_each(|(done, byte)| *done = *byte.max(done));
        }
        Deed::Add => ledger.words(open.target).tickets.push(before),
        Deed::Swap { value } => {
            ledger.words(open.target).links.push((before, *value));
            chains[open.target.index()] = *value;
        }
        Deed::CompareSwap { expected, value } => {
            let is_swapped = before == *expected;
            if is_swapped {
                ledger.words(open.target).links.push((before, *value));
            }
            chains[open.target.index()] = if is_swapped { *value } else { before };
        }
        Deed::Signal { .. } | Deed::Send => assert_eq!(before, 0),
        Deed::Wrong { .. } => panic!("what is wrong is refused"),
    }
}

/// Takes note that nobody knows what became of an operation.
fn give_up(ledger: &mut Ledger, open: &Open) {
    let words = ledger.words(open.target);
    match open.deed {
        Deed::Add => words.unknown_additions += 1,
        Deed::Swap { .. } | Deed::CompareSwap { .. } => words.has_unknown_links = true,
        _ => {}
    }
}
