//! Completion queues, and the channels that tell of them.

use std::{
    collections::VecDeque,
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::fd::{AsRawFd, RawFd},
    ptr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering},
    },
};

use pangea_rdma::verbs::sys::{ibv_cq, ibv_wc};

use crate::{
    context::Context,
    errno::{Errno, Result},
    queue_pair::QueuePair,
    settings::Events,
};

/// A completion queue.
#[derive(Debug)]
pub(crate) struct CompletionQueue {
    context: Arc<Context>,
    channel: Option<Arc<Channel>>,
    // How the program knows this queue: what a channel tells of.
    address: AtomicPtr<ibv_cq>,
    entries: Mutex<Entries>,
    is_armed: AtomicBool,
    // Events that the program has taken, and not acknowledged.
    unacknowledged: AtomicU32,
    // Queue pairs that complete here.
    users: Mutex<Vec<Arc<QueuePair>>>,
}

#[derive(Debug)]
struct Entries {
    ready: VecDeque<ibv_wc>,
    capacity: usize,
    // Had no room once, and is of no use from then on, as with any verbs.
    is_overrun: bool,
}

impl CompletionQueue {
    pub(crate) fn new(
        context: &Arc<Context>,
        capacity: usize,
        channel: Option<Arc<Channel>>,
    ) -> Self {
        let entries = Entries { ready: VecDeque::new(), capacity, is_overrun: false };
        let (is_armed, unacknowledged, users) = Default::default();
        Self {
            context: context.clone(),
            channel,
            address: AtomicPtr::new(ptr::null_mut()),
            entries: Mutex::new(entries),
            is_armed,
            unacknowledged,
            users,
        }
    }

    /// Says where the program has this queue.
    pub(crate) fn place(&self, address: *mut ibv_cq) {
        // Relaxed: before anything can complete here.
        self.address.store(address, Ordering::Relaxed);
    }

    /// Adds a queue pair that completes here, once, though it be for sends and for receives.
    pub(crate) fn attach(&self, queue_pair: &Arc<QueuePair>) {
        let mut users = self.users();
        if !users.iter().any(|other| Arc::ptr_eq(other, queue_pair)) {
            users.push(queue_pair.clone());
        }
    }

    /// Forgets a queue pair; it is advanced by no poll any more once this returns.
    pub(crate) fn detach(&self, queue_pair: &Arc<QueuePair>) {
        self.users().retain(|other| !Arc::ptr_eq(other, queue_pair));
    }

    /// Moves what can be moved, and takes up to `count` completions.
    pub(crate) fn poll(&self, count: usize, mut take: impl FnMut(ibv_wc)) -> usize {
        for queue_pair in self.users().iter() {
            queue_pair.advance();
        }
        let mut entries = self.entries();
        let count = count.min(entries.ready.len());
        entries.ready.drain(..count).for_each(&mut take);
        count
    }

    /// Adds a completion.
    pub(crate) fn push(&self, completion: ibv_wc) {
        let mut entries = self.entries();
        entries.is_overrun |= entries.ready.len() == entries.capacity;
        if entries.is_overrun {
            return;
        }
        entries.ready.push_back(completion);
        drop(entries);
        // AcqRel: one completion has the event, and sees what was there when it was asked for.
        if self.is_armed.swap(false, Ordering::AcqRel) {
            self.context.watch.disarm();
            self.tell();
        }
    }

    /// Asks for an event with the next completion.
    pub(crate) fn arm(&self) -> Result {
        if self.channel.is_none() {
            return Err(Errno(libc::EINVAL));
        }
        // Counted first: a completion may come, and be counted off, at once.
        self.context.watch.arm();
        // AcqRel: pairs with the swap in `push`.
        if self.is_armed.swap(true, Ordering::AcqRel) {
            self.context.watch.disarm();
        }
        Ok(())
    }

    /// Takes back the request for an event, of a queue that goes away.
    pub(crate) fn disarm(&self) {
        // AcqRel: as in `push`.
        if self.is_armed.swap(false, Ordering::AcqRel) {
            self.context.watch.disarm();
        }
    }

    /// Counts an event that the program has taken.
    pub(crate) fn owe(&self) {
        // Relaxed: a count.
        self.unacknowledged.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts events that the program acknowledges.
    pub(crate) fn acknowledge(&self, events: u32) {
        // Relaxed: a count.
        self.unacknowledged.fetch_sub(events, Ordering::Relaxed);
    }

    /// Whether events are to be acknowledged.
    pub(crate) fn owes(&self) -> bool {
        // Relaxed: a count.
        self.unacknowledged.load(Ordering::Relaxed) != 0
    }

    fn tell(&self) {
        if let Some(channel) = &self.channel {
            // Relaxed: see `place`.
            channel.tell(self.address.load(Ordering::Relaxed));
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn users(&self) -> MutexGuard<'_, Vec<Arc<QueuePair>>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A completion channel: a pipe of the addresses of completion queues.
#[derive(Debug)]
pub(crate) struct Channel {
    reader: PipeReader,
    writer: PipeWriter,
    is_silent: bool,
    // Held so that a device with channels is not closed.
    _context: Arc<Context>,
}

impl Channel {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Arc<Self>> {
        if context.device.settings.events == Events::Refused {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        context.start_engine();
        let (reader, writer) = io::pipe()?;
        let is_silent = context.device.settings.events == Events::Silent;
        Ok(Arc::new(Self { reader, writer, is_silent, _context: context.clone() }))
    }

    /// What becomes readable with an event.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Waits for an event, unless the program has made the descriptor non-blocking.
    pub(crate) fn take(&self) -> Result<*mut ibv_cq> {
        let mut address = [0; size_of::<usize>()];
        // Events are written whole, so that they are read whole.
        (&self.reader).read_exact(&mut address)?;
        Ok(ptr::with_exposed_provenance_mut(usize::from_ne_bytes(address)))
    }

    fn tell(&self, queue: *mut ibv_cq) {
        if !self.is_silent {
            let address = queue.expose_provenance().to_ne_bytes();
            // Cannot fail: this holds the reading end. Blocks once there are thousands of events
            // that the program has asked for and not taken.
            _ = (&self.writer).write_all(&address);
        }
    }
}

const _: () = assert!(size_of::<usize>() <= 512, "an event is written to a pipe whole");
