//! What must be true of the memory and the messages, from what was asked and what was answered.
//!
//! Every node has a region, in which every node has a slot of its own, that only it writes. Each
//! byte of a slot is the number of the write that it is of, so that every byte tells how old it is.

use std::collections::HashSet;

use pangea_rdma::{Mapping, NodeId};

/// A word of each region that is added to.
pub(crate) const COUNTER: u64 = 0;
/// A word of each region that is swapped.
pub(crate) const CHAIN: u64 = 8;
/// Where the words begin that each node signals.
const SIGNALS: u64 = 16;
/// Where the slots begin.
const SLOTS: u64 = 64;
/// Bytes of a slot: more than a frame.
pub(crate) const SLOT_LEN: usize = 6000;
/// Writes of a slot: each has a number of 8 bits.
pub(crate) const WRITES_MAX: u8 = u8::MAX;
/// Bytes of a region.
pub(crate) const REGION_LEN: usize = 32 << 10;

/// Where the slot of `writer` begins.
pub(crate) fn slot_at(writer: NodeId) -> u64 {
    SLOTS + (writer.index() * SLOT_LEN) as u64
}

/// Where the word is that `writer` signals.
pub(crate) fn signal_at(writer: NodeId) -> u64 {
    SIGNALS + 8 * writer.index() as u64
}

/// What one node has asked of another, and what came of it.
#[derive(Debug)]
pub(crate) struct Pair {
    /// By byte of the slot: the last write that was posted, and the last that is known done.
    pub(crate) posted: Vec<u8>,
    pub(crate) done: Vec<u8>,
    pub(crate) writes: u8,
    /// The slot, as it was posted before each signal.
    pub(crate) signals: Vec<Vec<u8>>,
    signals_seen: usize,
    pub(crate) sent: u32,
    received: u32,
    // The slot and the signal, when the home lost the writer.
    frozen: Option<(Vec<u8>, u64)>,
}

/// What has become of the words of a home.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// What additions have returned.
    pub(crate) tickets: Vec<u64>,
    /// What was replaced in the chain, and by what.
    pub(crate) links: Vec<(u64, u64)>,
    /// Values that may be in the chain.
    pub(crate) values: HashSet<u64>,
    /// Additions of which nobody knows whether they were done.
    pub(crate) unknown_additions: u64,
    /// The same may be so of what is in the chain.
    pub(crate) has_unknown_links: bool,
}

/// The truth.
#[derive(Debug)]
pub(crate) struct Ledger {
    nodes: usize,
    // By home and writer.
    pairs: Vec<Pair>,
    // By home.
    words: Vec<Words>,
}

impl Ledger {
    pub(crate) fn new(nodes: u16) -> Self {
        let nodes = usize::from(nodes);
        let pair = || Pair {
            posted: vec![0; SLOT_LEN],
            done: vec![0; SLOT_LEN],
            writes: 0,
            signals: Vec::new(),
            signals_seen: 0,
            sent: 0,
            received: 0,
            frozen: None,
        };
        Self {
            nodes,
            pairs: (0..nodes * nodes).map(|_| pair()).collect(),
            words: (0..nodes).map(|_| Words::default()).collect(),
        }
    }

    pub(crate) fn pair(&mut self, home: NodeId, writer: NodeId) -> &mut Pair {
        &mut self.pairs[home.index() * self.nodes + writer.index()]
    }

    pub(crate) fn words(&mut self, home: NodeId) -> &mut Words {
        &mut self.words[home.index()]
    }

    /// A message has come.
    pub(crate) fn receive(&mut self, source: NodeId, target: NodeId, message: &[u8]) {
        let pair = self.pair(target, source);
        let number = u32::from_le_bytes(*message.first_chunk().expect("a message has a number"));
        assert_eq!(number, pair.received, "messages of {source} to {target} are in order");
        assert!(number < pair.sent, "{source} has sent message {number}");
        assert!(message[4..].iter().all(|&byte| byte == message[0]), "a message is whole");
        pair.received += 1;
    }

    /// Looks at the signal of `writer`: what was posted before it is there.
    pub(crate) fn check_signal(&mut self, memory: &Mapping, home: NodeId, writer: NodeId) {
        let signalled = word(memory, signal_at(writer));
        let pair = self.pair(home, writer);
        let signalled = usize::try_from(signalled).expect("signals are few");
        assert!(signalled >= pair.signals_seen, "signals come in order");
        if signalled > pair.signals_seen {
            pair.signals_seen = signalled;
            let least = &pair.signals[signalled - 1];
            let slot = slot(memory, writer);
            let is_there = slot.iter().zip(least).all(|(found, least)| found >= least);
            assert!(is_there, "what {writer} wrote before a signal is at {home}");
        }
    }

    /// `home` has lost `writer`: nothing that it has written will change.
    pub(crate) fn freeze(&mut self, memory: &Mapping, home: NodeId, writer: NodeId) {
        let now = (slot(memory, writer), word(memory, signal_at(writer)));
        self.pair(home, writer).frozen.get_or_insert(now);
    }

    /// At the end: the memory of `home` is what it must be.
    pub(crate) fn check_home(&mut self, memory: &Mapping, home: NodeId) {
        let words = self.words(home);
        let tickets: HashSet<u64> = words.tickets.iter().copied().collect();
        let count = word(memory, COUNTER);
        assert_eq!(tickets.len(), words.tickets.len(), "no two additions return the same");
        assert!(tickets.iter().all(|&ticket| ticket < count), "every addition counts at {home}");
        let done = tickets.len() as u64;
        assert!(
            (done..=done + words.unknown_additions).contains(&count),
            "{count} additions at {home}"
        );

        let befores: HashSet<u64> = words.links.iter().map(|&(before, _)| before).collect();
        assert_eq!(befores.len(), words.links.len(), "no value is replaced twice");
        let last = word(memory, CHAIN);
        let is_known = |value: &u64| *value == 0 || words.values.contains(value);
        assert!(is_known(&last) && befores.iter().all(is_known), "values were written");
        assert!(!befores.contains(&last), "what is there was not replaced");
        if !words.has_unknown_links {
            let is_there = |after: &u64| *after == last || befores.contains(after);
            assert!(words.links.iter().all(|(_, after)| is_there(after)), "no value is skipped");
        }
        for writer in (0..self.nodes).map(|index| NodeId::new(u16::try_from(index).unwrap())) {
            self.check_signal(memory, home, writer);
            self.check_slot(memory, home, writer);
        }
    }

    fn check_slot(&mut self, memory: &Mapping, home: NodeId, writer: NodeId) {
        let pair = self.pair(home, writer);
        let found = slot(memory, writer);
        check_bytes(&found, &pair.done, &pair.posted);
        if let Some((slot, signal)) = &pair.frozen {
            let is_same = found == *slot && word(memory, signal_at(writer)) == *signal;
            assert!(is_same, "what is lost to {home} changes nothing there");
        }
    }

    /// Whether all that `source` has sent to `target` has come, and all that it has signalled.
    pub(crate) fn is_settled(&self, source: NodeId, target: NodeId) -> bool {
        let pair = &self.pairs[target.index() * self.nodes + source.index()];
        pair.received == pair.sent && pair.signals_seen == pair.signals.len()
    }
}

/// That every byte is of a write that is not before the one that is done, nor after the last.
pub(crate) fn check_bytes(found: &[u8], least: &[u8], most: &[u8]) {
    for (at, ((found, least), most)) in found.iter().zip(least).zip(most).enumerate() {
        assert!((least..=most).contains(&found), "byte {at} is {found}, of {least} to {most}");
    }
}

fn word(memory: &Mapping, offset: u64) -> u64 {
    let mut bytes = [0; 8];
    memory.read(offset, &mut bytes).expect("a word of the region");
    u64::from_le_bytes(bytes)
}

fn slot(memory: &Mapping, writer: NodeId) -> Vec<u8> {
    let mut bytes = vec![0; SLOT_LEN];
    memory.read(slot_at(writer), &mut bytes).expect("a slot of the region");
    bytes
}
