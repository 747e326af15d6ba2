//! The thread that answers the peers: it blocks until a message comes, and does what it says.
//!
//! All that nodes ask of each other goes through here; nothing else posts or polls.

use std::{
    collections::{HashMap, VecDeque},
    ptr::NonNull,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use pangea_alloc::Heap;
use pangea_rdma::{Completion, Fabric, NodeId, Op, Request, Token};

use crate::{
    Config, Error, Result,
    address_space::AddressSpace,
    allocation,
    naming::Names,
    sync::Barrier,
    wire::{self, Message, Reply},
};

/// How long the thread sleeps when nothing happens; it need not wake at all.
const NAP: Duration = Duration::from_secs(60);

/// What a node is made of.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) space: AddressSpace,
    pub(crate) heap: Heap,
    pub(crate) barrier: Barrier,
    pub(crate) names: Names,
    /// The epoch of the last loss, once all messages from before it are taken in: while it is zero,
    /// nobody need be asked about.
    pub(crate) losses: Arc<AtomicU64>,
    pub(crate) outbox: Outbox,
    tickets: Tickets,
    is_stopping: AtomicBool,
    // Last: its goodbye is said when all else is done.
    pub(crate) fabric: Box<dyn Fabric>,
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { fabric, config, space, heap, barrier, outbox } = parts;
        Self {
            config,
            space,
            heap,
            barrier,
            names: Names::default(),
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
        let deadline = Instant::now() + self.config.timeout;
        let ticket = self.tickets.issue();
        let message = request(ticket);
        if node == self.node() {
            self.handle(node, message);
        } else {
            self.send(node, &message)?;
        }
        self.tickets.wait(ticket, deadline, waiting_for, &|| self.check_answerable(node))
    }

    /// The loss of `node`, as an error, once all that it sent before has been taken in.
    fn check_answerable(&self, node: NodeId) -> Result {
        // Acquire: pairs with the Release in `run`.
        if self.losses.load(Ordering::Acquire) < self.fabric.epoch() {
            return Ok(());
        }
        self.check_present(node)
    }

    /// Answers the request of `node` that has `ticket`.
    pub(crate) fn reply(&self, node: NodeId, ticket: u64, reply: Reply) {
        if node == self.node() {
            self.tickets.answer(ticket, reply);
        } else {
            // A node that cannot be answered is gone, and waits for nothing.
            _ = self.send(node, &Message::Reply { ticket, reply });
        }
    }

    /// Does what `message` of `source` says.
    fn handle(&self, source: NodeId, message: Message) {
        match message {
            Message::Allocate { ticket, size, align } => {
                self.reply(source, ticket, allocation::serve(self, size, align));
            }
            // An offset that is not allocated is the sender's mistake, and changes nothing.
            Message::Free { offset } => _ = allocation::free_here(self, offset),
            Message::Publish { ticket, name, handle } => {
                self.names.publish(name, handle, (source, ticket), &|to, reply| {
                    self.reply(to.0, to.1, reply);
                });
            }
            Message::Lookup { ticket, name } => {
                if let Some(handle) = self.names.find(name, (source, ticket)) {
                    self.reply(source, ticket, Reply::Found(handle));
                }
            }
            Message::Reply { ticket, reply } => self.tickets.answer(ticket, reply),
            // Joining is over: a node that goes on with it is out of step, and gets no answer.
            Message::Hello { .. }
            | Message::Propose { .. }
            | Message::Answer { .. }
            | Message::Settle { .. }
            | Message::Wake => {}
        }
    }

    /// Tells the thread to end.
    pub(crate) fn stop(&self) {
        // Release: pairs with the Acquire in `run`.
        self.is_stopping.store(true, Ordering::Release);
        _ = self.send(self.node(), &Message::Wake);
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
            let mut messages = Vec::new();
            // A peer that breaks the protocol is not listened to; its requests will time out.
            _ = receive(&*self.fabric, &self.outbox, &mut |source, message| {
                messages.push((source, message));
            });
            for (source, message) in messages {
                self.handle(source, message);
            }
            if epoch != known_epoch {
                known_epoch = epoch;
                // Release: pairs with the Acquire in `check_answerable`; who sees it sees the
                // answers.
                self.losses.store(epoch, Ordering::Release);
                self.tickets.look_again();
            }
            self.outbox.flush(&*self.fabric);
            self.fabric.wait(Instant::now() + NAP);
        }
    }
}

/// What joining brings together.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) fabric: Box<dyn Fabric>,
    pub(crate) config: Config,
    pub(crate) space: AddressSpace,
    pub(crate) heap: Heap,
    pub(crate) barrier: Barrier,
    pub(crate) outbox: Outbox,
}

/// Polls once; messages that cannot be read are dropped.
pub(crate) fn receive(
    fabric: &dyn Fabric,
    outbox: &Outbox,
    sink: &mut dyn FnMut(NodeId, Message),
) -> Result<usize> {
    Ok(fabric.poll(&mut |completion| match completion {
        Completion::Done { token, .. } => outbox.complete(token),
        Completion::Message { source, message } => {
            if let Ok(message) = wire::decode(message) {
                sink(source, message);
            }
        }
        _ => {}
    })?)
}

/// Messages on their way: their bytes stay where they are until the fabric has done with them.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    state: Mutex<Letters>,
}

#[derive(Debug, Default)]
struct Letters {
    next: u64,
    waiting: VecDeque<(NodeId, Box<[u8]>)>,
    posted: HashMap<Token, Box<[u8]>>,
}

impl Outbox {
    /// Posts `message`, or keeps it until there is room.
    pub(crate) fn send(&self, fabric: &dyn Fabric, node: NodeId, message: &Message) -> Result {
        let bytes = wire::encode(message)?;
        self.lock().waiting.push_back((node, bytes));
        self.flush(fabric);
        Ok(())
    }

    /// Posts what is waiting, as far as there is room.
    pub(crate) fn flush(&self, fabric: &dyn Fabric) {
        let letters = &mut *self.lock();
        while let Some((target, bytes)) = letters.waiting.front_mut() {
            let token = Token(letters.next);
            let op = Op::Send { target: *target, message: NonNull::from(&mut **bytes) };
            // SAFETY: the bytes are boxed, and are moved (not touched) to `posted`, where they stay
            // until `complete` is called with their token.
            let posted = unsafe { fabric.post(&[Request { token, op }]) };
            if matches!(posted, Ok(0)) {
                return;
            }
            letters.next += 1;
            let letter = letters.waiting.pop_front();
            // Refused outright, it is forgotten; its receiver is lost or never was.
            if let (Ok(_), Some((_, bytes))) = (posted, letter) {
                letters.posted.insert(token, bytes);
            }
        }
    }

    /// Forgets the bytes of a message that has been sent.
    fn complete(&self, token: Token) {
        self.lock().posted.remove(&token);
    }

    fn lock(&self) -> MutexGuard<'_, Letters> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests that wait for their answers.
#[derive(Debug, Default)]
struct Tickets {
    // The answers, once they have come.
    open: Mutex<HashMap<u64, Option<Reply>>>,
    changed: Condvar,
    last: AtomicU64,
}

impl Tickets {
    fn issue(&self) -> u64 {
        // Relaxed: a ticket need only differ from the others.
        let ticket = self.last.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(ticket, None);
        ticket
    }

    /// Takes in an answer; one that nobody waits for any more is dropped.
    fn answer(&self, ticket: u64, reply: Reply) {
        if let Some(place) = self.lock().get_mut(&ticket) {
            *place = Some(reply);
            self.changed.notify_all();
        }
    }

    /// Makes who waits look whether it still may.
    fn look_again(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    fn wait(
        &self,
        ticket: u64,
        deadline: Instant,
        waiting_for: &str,
        may_wait: &dyn Fn() -> Result,
    ) -> Result<Reply> {
        let start = Instant::now();
        let mut open = self.lock();
        let result = loop {
            if let Some(reply) = open.get_mut(&ticket).and_then(Option::take) {
                break Ok(reply);
            }
            if let Err(error) = may_wait() {
                break Err(error);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let waiting_for = waiting_for.to_owned();
                break Err(Error::TimedOut { waiting_for, after: start.elapsed() });
            }
            open = match self.changed.wait_timeout(open, left) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        };
        open.remove(&ticket);
        result
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Option<Reply>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
