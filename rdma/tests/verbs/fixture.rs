//! Two connected ends in one process, and how tests drive them.

use std::{
    collections::HashMap,
    ptr::NonNull,
    sync::Arc,
    time::{Duration, Instant},
};

use pangea_rdma::{
    Mapping, NodeId, Op, Region, RemoteAddr, Request, Token,
    verbs::{
        ProtectionDomain, Registry,
        rc::{Event, Failure, Rc},
    },
};

use crate::devices;

/// The region that each end shares.
pub(crate) const REGION: Region = Region(3);

/// Two ends, each with memory that it shares.
pub(crate) struct Two {
    pub(crate) ends: [Rc; 2],
    pub(crate) registries: [Arc<Registry>; 2],
    pub(crate) memories: [Arc<Mapping>; 2],
    ended: HashMap<u64, Result<u64, Failure>>,
    pub(crate) messages: [Vec<Vec<u8>>; 2],
    next: u64,
}

impl Two {
    /// Two ends that share `len` bytes each; `None` where there is no device.
    pub(crate) fn new(len: usize) -> Option<Self> {
        let ports = devices::ports()?;
        let registries = ports.map(|port| Registry::new(&ProtectionDomain::new(&port).unwrap()));
        let memories = [0, 1].map(|_| Arc::new(Mapping::new(len).unwrap()));
        for (registry, memory) in registries.iter().zip(&memories) {
            registry.share(REGION, memory);
        }
        let mut ends = [0, 1].map(|end| Rc::new(&registries[end], 0).unwrap());
        let endpoints = [0, 1].map(|end| ends[end].endpoint());
        ends[0].connect(&endpoints[1]).unwrap();
        ends[1].connect(&endpoints[0]).unwrap();
        let (ended, messages) = Default::default();
        Some(Self { ends, registries, memories, ended, messages, next: 0 })
    }

    /// Posts an operation at an end, polling while its queue is full.
    pub(crate) fn post(&mut self, end: usize, op: Op) -> Token {
        let token = Token(self.next);
        self.next += 1;
        let deadline = deadline();
        // SAFETY: tests wait for their operations before they touch or drop the memory.
        while unsafe { self.ends[end].post(&[Request { token, op }]) } == 0 {
            assert!(Instant::now() < deadline, "the queue stays full");
            self.poll();
        }
        token
    }

    /// Polls both ends once.
    pub(crate) fn poll(&mut self) {
        for end in 0..2 {
            self.poll_end(end);
        }
    }

    pub(crate) fn poll_end(&mut self, end: usize) {
        let (ended, messages) = (&mut self.ended, &mut self.messages[end]);
        self.ends[end].poll(&mut |event| match event {
            Event::Done { token, result } => {
                let before = ended.insert(token.0, result);
                assert!(before.is_none(), "{token:?} ended twice");
            }
            Event::Message(message) => messages.push(message.to_vec()),
        });
    }

    /// Polls until `ready`.
    pub(crate) fn poll_until(&mut self, mut ready: impl FnMut(&Self) -> bool) {
        let deadline = deadline();
        while !ready(self) {
            assert!(Instant::now() < deadline, "what is waited for does not come");
            self.poll();
        }
    }

    /// Waits for an operation.
    pub(crate) fn wait(&mut self, token: Token) -> Result<u64, Failure> {
        self.poll_until(|two| two.ended.contains_key(&token.0));
        self.ended[&token.0]
    }

    /// Does an operation.
    pub(crate) fn run(&mut self, end: usize, op: Op) -> Result<u64, Failure> {
        let token = self.post(end, op);
        self.wait(token)
    }
}

/// When a test gives up; far more than anything takes, on the slowest machine.
pub(crate) fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

pub(crate) fn at(offset: u64) -> RemoteAddr {
    RemoteAddr { node: NodeId::new(1), region: REGION, offset }
}

pub(crate) fn read(offset: u64, target: &mut [u8]) -> Op {
    Op::Read { source: at(offset), target: NonNull::from(target) }
}

pub(crate) fn write(source: &[u8], offset: u64) -> Op {
    Op::Write { source: NonNull::from(source), target: at(offset) }
}

pub(crate) fn send(message: &[u8]) -> Op {
    Op::Send { target: NodeId::new(1), message: NonNull::from(message) }
}

/// Bytes that differ from place to place, and from `seed` to `seed`.
pub(crate) fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 31 + index / 251 + seed * 7).to_le_bytes()[0]).collect()
}

/// What is in a mapping.
pub(crate) fn content(memory: &Mapping, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    memory.read(offset, &mut bytes).unwrap();
    bytes
}
