//! The thread that answers the peers: it blocks until a message comes, and does what it says.
//!
//! All that nodes ask of each other goes through here. Any thread may post, through the [`Outbox`];
//! only this one polls.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use pangea_alloc::Heap;
use pangea_rdma::{Completion, Fabric, NodeId, Presence, Region, Token};

use crate::{
    Config, Error, Result,
    address_space::AddressSpace,
    allocation::Loans,
    cache::Cache,
    naming::Names,
    outbox::Outbox,
    sync::Barrier,
    ticket::Tickets,
    transfer::{Completed, Prefetch, Transfers},
    wire::{self, Message, Reply},
};

/// How long the thread sleeps when nothing happens. Nothing depends on its waking by itself.
const NAP: Duration = Duration::from_secs(60);

/// What a node is made of.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) space: AddressSpace,
    /// The region that holds a node's heap, on every node.
    pub(crate) heap_region: Region,
    pub(crate) heap: Heap,
    pub(crate) barrier: Barrier,
    pub(crate) names: Names,
    pub(crate) cache: Cache,
    pub(crate) transfers: Transfers,
    loans: Loans,
    /// The epoch of the last loss, once all messages from before it are taken in: while it is zero,
    /// nobody need be asked about.
    pub(crate) losses: Arc<AtomicU64>,
    pub(crate) outbox: Outbox,
    tickets: Tickets,
    // Held while messages are taken in: they are handled in the order in which they came.
    inbox: Mutex<Vec<(NodeId, Message)>>,
    is_stopping: AtomicBool,
    // Last: its goodbye is said when all else is done.
    pub(crate) fabric: Box<dyn Fabric>,
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { fabric, config, space, heap_region, heap, barrier, outbox } = parts;
        Self {
            cache: Cache::new(config.cache_bytes),
            transfers: Transfers::default(),
            inbox: Mutex::default(),
            config,
            space,
            heap_region,
            heap,
            barrier,
            names: Names::default(),
            loans: Loans::default(),
            losses: Arc::default(),
            outbox,
            tickets: Tickets::default(),
            is_stopping: AtomicBool::new(false),
            fabric,
        }
    }

    /// This node.
    pub(crate) fn node(&self) -> NodeId {
        self.fabric.node()
    }

    /// The loss of `node`, as an error, if it is lost.
    pub(crate) fn check_present(&self, node: NodeId) -> Result {
        if self.fabric.is_lost(node) {
            let node = self.fabric.first_cause(node);
            return Err(Error::PeerLost { node, epoch: self.fabric.epoch() });
        }
        Ok(())
    }

    /// Sends `message`, now or when there is room.
    pub(crate) fn send(&self, node: NodeId, message: &Message) -> Result {
        self.outbox.send(&*self.fabric, node, message)
    }

    /// Asks `node` for something and waits for the answer, at most as long as the settings allow.
    pub(crate) fn request(
        &self,
        node: NodeId,
        waiting_for: &str,
        request: impl FnOnce(u64) -> Message,
    ) -> Result<Reply> {
        self.request_while(node, waiting_for, request, &|| self.check_answerable(node))
    }

    /// Asks `node` for something, and waits for the answer for as long as `may_wait` too.
    pub(crate) fn request_while(
        &self,
        node: NodeId,
        waiting_for: &str,
        request: impl FnOnce(u64) -> Message,
        may_wait: &dyn Fn() -> Result,
    ) -> Result<Reply> {
        let deadline = Instant::now() + self.config.timeout;
        let ticket = self.tickets.issue(node);
        let message = request(ticket);
        let sent = if node == self.node() {
            self.handle(node, message);
            Ok(())
        } else {
            self.send(node, &message)
        };
        if let Err(error) = sent {
            self.tickets.close(ticket);
            return Err(error);
        }
        self.tickets.wait(ticket, deadline, waiting_for, may_wait)
    }

    /// The loss of `node`, as an error, once all that it sent before has been taken in.
    pub(crate) fn check_answerable(&self, node: NodeId) -> Result {
        // Acquire: pairs with the Release in `run`.
        if self.losses.load(Ordering::Acquire) < self.fabric.epoch() {
            return Ok(());
        }
        self.check_present(node)
    }

    /// An error once nobody is left who could do what this node waits for: a node has died, or all
    /// others are gone.
    pub(crate) fn check_company(&self) -> Result {
        let own = self.node();
        let others = NodeId::all(self.fabric.nodes()).filter(|&node| node != own);
        let died = |node: &NodeId| self.fabric.presence(*node) == Presence::Died;
        if let Some(node) = others.clone().find(died) {
            return self.check_answerable(node);
        }
        let Some(last) = others.clone().next_back() else { return Ok(()) };
        if others.clone().all(|node| self.fabric.is_lost(node)) {
            return self.check_answerable(last);
        }
        Ok(())
    }

    /// Answers the request of `node` that has `ticket`.
    pub(crate) fn reply(&self, node: NodeId, ticket: u64, reply: Reply) {
        if node == self.node() {
            self.answer(node, ticket, reply);
        } else {
            self.outbox.answer(&*self.fabric, node, &Message::Reply { ticket, reply });
        }
    }

    /// Takes in an answer of `source`. Memory that nobody waits for any more is given back.
    fn answer(&self, source: NodeId, ticket: u64, reply: Reply) {
        if let Some(Reply::Allocated(offset)) = self.tickets.answer(source, ticket, reply) {
            self.outbox.answer(&*self.fabric, source, &Message::Free { offset });
        }
    }

    /// Does what `message` of `source` says.
    fn handle(&self, source: NodeId, message: Message) {
        match message {
            Message::Allocate { ticket, size, align } => {
                self.reply(source, ticket, self.loans.serve(self, source, size, align));
            }
            // What is not the sender's is its mistake, and changes nothing.
            Message::Free { offset } => _ = self.loans.free(self, source, offset),
            Message::Publish { ticket, name, handle } => {
                self.names.publish(name, handle, (source, ticket), &|to, reply| {
                    self.reply(to.0, to.1, reply);
                });
            }
            Message::Lookup { ticket, name } => {
                self.names.find(name, (source, ticket), &|to, reply| {
                    self.reply(to.0, to.1, reply);
                });
            }
            Message::Reply { ticket, reply } => self.answer(source, ticket, reply),
            // Joining is over: a node that goes on with it is out of step, and gets no answer.
            Message::Hello { .. }
            | Message::Propose { .. }
            | Message::Answer { .. }
            | Message::Settle { .. } => {}
        }
    }

    /// Takes in, and handles, what has come.
    pub(crate) fn take_in(&self) {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let mut has_ended = false;
        self.fabric.poll(&mut |completion| match completion {
            Completion::Done { token, result } => has_ended |= self.complete(token, result),
            Completion::Message { source, message } => {
                // One that cannot be read is dropped: its sender will give up waiting.
                if let Ok(message) = wire::decode(message) {
                    inbox.push((source, message));
                }
            }
            _ => {}
        });
        for (source, message) in inbox.drain(..) {
            self.handle(source, message);
        }
        if has_ended {
            // Another thread may wait for it.
            self.fabric.ring(self.node());
        }
    }

    /// Takes in a completion; whether it is a transfer's.
    fn complete(&self, token: Token, result: pangea_rdma::Result<u64>) -> bool {
        match self.transfers.complete(token, result) {
            Completed::Other => {
                self.outbox.complete(token);
                return false;
            }
            Completed::Transfer => {}
            Completed::Prefetch(Prefetch { home, runs }, is_there) => {
                self.cache.settle(home, &runs, is_there);
            }
        }
        true
    }

    /// Tells the thread to end.
    pub(crate) fn stop(&self) {
        // Release: pairs with the Acquire in `run`.
        self.is_stopping.store(true, Ordering::Release);
        self.fabric.wake();
    }

    /// Handles what comes, `backlog` first, until told to stop.
    pub(crate) fn run(&self, backlog: VecDeque<(NodeId, Message)>) {
        for (source, message) in backlog {
            self.handle(source, message);
        }
        let mut known_epoch = 1;
        // Acquire: pairs with the Release in `stop`.
        while !self.is_stopping.load(Ordering::Acquire) {
            // Read before the messages: those that a node sent before it was lost are among them.
            let epoch = self.fabric.epoch();
            self.take_in();
            if epoch != known_epoch {
                known_epoch = epoch;
                // Release: pairs with the Acquire in `check_answerable`; who sees it sees the
                // answers.
                self.losses.store(epoch, Ordering::Release);
                self.tickets.look_again();
            }
            self.outbox.flush(&*self.fabric);
            self.fabric.wait(epoch, Instant::now() + NAP);
        }
    }
}

/// What joining brings together.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) fabric: Box<dyn Fabric>,
    pub(crate) config: Config,
    pub(crate) space: AddressSpace,
    pub(crate) heap_region: Region,
    pub(crate) heap: Heap,
    pub(crate) barrier: Barrier,
    pub(crate) outbox: Outbox,
}

/// The first node that is gone and `is_missed`. Those that died come first: the others may have
/// left because of them.
pub(crate) fn first_gone(
    fabric: &dyn Fabric,
    is_missed: &dyn Fn(NodeId) -> bool,
) -> Option<NodeId> {
    let find = |presence| {
        NodeId::all(fabric.nodes())
            .find(|&node| fabric.presence(node) == presence && is_missed(node))
    };
    find(Presence::Died).or_else(|| find(Presence::Left))
}

/// Polls once. A message that cannot be read is dropped: its sender will give up waiting for an
/// answer.
pub(crate) fn receive(
    fabric: &dyn Fabric,
    outbox: &Outbox,
    sink: &mut dyn FnMut(NodeId, Message),
) -> usize {
    fabric.poll(&mut |completion| match completion {
        Completion::Done { token, .. } => outbox.complete(token),
        Completion::Message { source, message } => {
            if let Ok(message) = wire::decode(message) {
                sink(source, message);
            }
        }
        _ => {}
    })
}
