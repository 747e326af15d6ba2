//! A node as a test sees it.
//!
//! Whoever polls gets the completions of all threads; [`Node`] hands each to whom it belongs, and
//! sees to it that there is exactly one for each request.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use super::lent::Lent;
use crate::{
    Completion, Fabric, Mapping, NodeId, Op, PeerMemory, Region, RemoteAddr, Request, Result,
    Token, primitive::Ordering,
};

/// The region that every node has.
const REGION: Region = Region(1);

/// When what should happen at once is given up.
pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// A place in the region of `node`.
pub(super) fn at(node: u16, offset: u64) -> RemoteAddr {
    RemoteAddr { node: NodeId::new(node), region: REGION, offset }
}

/// A node and its region.
pub(super) struct Node {
    pub(super) fabric: Arc<dyn Fabric>,
    pub(super) memory: Arc<Mapping>,
    state: Mutex<State>,
}

/// What has come, until somebody takes it.
#[derive(Default)]
struct State {
    next: u64,
    // How a request has ended, if it has.
    requests: HashMap<Token, Option<Result<u64>>>,
    messages: VecDeque<(NodeId, Vec<u8>)>,
}

impl Node {
    pub(super) fn new(fabric: Arc<dyn Fabric>, region_len: usize) -> Self {
        let memory = Arc::new(Mapping::new(region_len).unwrap());
        assert_eq!(fabric.register(memory.clone()).unwrap(), REGION);
        Self { fabric, memory, state: Mutex::default() }
    }

    /// Finds the regions of all others, and maps those that can be.
    pub(super) fn attach_all(&self) {
        for peer in NodeId::all(self.fabric.nodes()).filter(|&peer| peer != self.fabric.node()) {
            match self.fabric.region(peer, REGION, soon()).unwrap() {
                PeerMemory::Object(object) => {
                    self.fabric.attach(peer, REGION, Arc::new(object.map().unwrap()));
                }
                PeerMemory::Remote(len) => assert!(len >= self.memory.len() as u64),
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Takes in what has come, and tells who may wait for it.
    pub(super) fn poll(&self) {
        let count = self.fabric.poll(&mut |completion| {
            let mut state = self.state();
            match completion {
                Completion::Done { token, result } => {
                    let request = state.requests.get_mut(&token).expect("it was posted");
                    assert!(request.replace(result).is_none(), "a request completes once");
                }
                Completion::Message { source, message } => {
                    state.messages.push_back((source, message.to_vec()));
                }
            }
        });
        if count > 0 {
            self.fabric.ring(self.fabric.node());
        }
    }

    /// Polls and waits until `ready`.
    pub(super) fn wait_until(&self, ready: &mut dyn FnMut() -> bool) {
        let fabric = &*self.fabric;
        while !ready() {
            self.poll();
            let is_in_time = fabric.wait_until(soon(), &mut || ready() || fabric.has_arrived());
            assert!(is_in_time, "{} waits in vain", fabric.node());
        }
    }

    /// Waits for the next message.
    pub(super) fn message(&self) -> (NodeId, Vec<u8>) {
        self.wait_until(&mut || !self.state().messages.is_empty());
        self.state().messages.pop_front().expect("one thread takes messages")
    }

    /// Starts `op`, waiting while the queue is full. `memory` is what it names.
    fn start(&self, op: Op, memory: Option<Lent>) -> Pending<'_> {
        let mut state = self.state();
        state.next += 1;
        let token = Token(state.next);
        state.requests.insert(token, None);
        drop(state);
        let request = Request { token, op };
        // SAFETY: the memory is lent, by the `Pending`, until the request is finished or for ever.
        while unsafe { self.fabric.post(&[request]) }.unwrap() == 0 {
            self.poll();
            // A moment: another thread may have made room, or be told of it.
            let moment = Instant::now() + Duration::from_millis(1);
            self.fabric.wait(self.fabric.epoch(), moment);
        }
        Pending { node: self, token, memory }
    }

    /// Starts an operation that names no memory of this process.
    pub(super) fn start_word(&self, op: Op) -> Pending<'_> {
        assert!(!matches!(op, Op::Read { .. } | Op::Write { .. } | Op::Send { .. }));
        self.start(op, None)
    }

    pub(super) fn start_write(&self, target: RemoteAddr, bytes: &[u8]) -> Pending<'_> {
        let memory = Lent::new(bytes, self.state().next);
        self.start(Op::Write { source: memory.part(), target }, Some(memory))
    }

    pub(super) fn start_read(&self, source: RemoteAddr, len: usize) -> Pending<'_> {
        let memory = Lent::new(&vec![0; len], self.state().next);
        self.start(Op::Read { source, target: memory.part() }, Some(memory))
    }

    pub(super) fn start_send(&self, target: u16, message: &[u8]) -> Pending<'_> {
        let (target, memory) = (NodeId::new(target), Lent::new(message, self.state().next));
        self.start(Op::Send { target, message: memory.part() }, Some(memory))
    }

    /// Does an operation that names no memory of this process.
    pub(super) fn run(&self, op: Op) -> Result<u64> {
        self.start_word(op).finish()
    }

    pub(super) fn write(&self, target: RemoteAddr, bytes: &[u8]) {
        self.start_write(target, bytes).finish().unwrap();
    }

    pub(super) fn read(&self, source: RemoteAddr, len: usize) -> Vec<u8> {
        self.start_read(source, len).bytes()
    }

    /// Bytes of this node's region, as its processor sees them.
    pub(super) fn own(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read(offset, &mut bytes).unwrap();
        bytes
    }

    /// A word of this node's region, and what was written before it was set.
    pub(super) fn own_word(&self, offset: u64) -> u64 {
        // Acquire: pairs with the Release of a signal.
        self.memory.word(offset).unwrap().load(Ordering::Acquire)
    }
}

/// A request that is under way.
#[must_use = "what is forgotten keeps its memory for ever"]
pub(super) struct Pending<'a> {
    node: &'a Node,
    token: Token,
    memory: Option<Lent>,
}

impl Pending<'_> {
    pub(super) fn has_ended(&self) -> bool {
        self.node.state().requests[&self.token].is_some()
    }

    /// Waits for the end.
    pub(super) fn finish(mut self) -> Result<u64> {
        self.wait().inspect(|_| _ = self.memory.take().map(Lent::take_back))
    }

    /// Waits for the end, and returns the bytes that were read or written.
    pub(super) fn bytes(mut self) -> Vec<u8> {
        self.wait().unwrap();
        self.memory.take().expect("it has memory").take_back()
    }

    fn wait(&mut self) -> Result<u64> {
        self.node.wait_until(&mut || self.has_ended());
        // It stays in the table, so that a second completion is seen.
        let result = self.node.state().requests.get_mut(&self.token).and_then(Option::take);
        let result = result.expect("its end has come");
        self.node.state().requests.insert(self.token, Some(Ok(0)));
        result
    }
}
