//! Joining: the nodes meet, tell each other what they bring, agree on addresses, map each other's
//! heaps, and pass a first barrier.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use pangea_alloc::Heap;
use pangea_rdma::{
    Fabric, Mapping, NodeId, Paths, PeerMemory, Region, Reservation, SharedObject,
    bootstrap::{self, Build, Invitation, Meeting},
    shm::Shm,
};

use crate::{
    Config, Error, Result,
    address_space::{AddressSpace, CANDIDATES, Span, Window},
    layout::TYPES,
    outbox::Outbox,
    progress::{Parts, Shared, first_gone, receive},
    sync::{self, Barrier, Deadline},
    wire::{self, Message},
};

/// Joins the cluster that this process was invited to, or one of its own; with it comes what others
/// have sent already.
pub(crate) fn join(config: Config) -> Result<(Shared, VecDeque<(NodeId, Message)>)> {
    config.check()?;
    let deadline = Instant::now() + config.join_timeout;
    let fabric = connect(&config, deadline)?;
    let mut newcomer =
        Newcomer { fabric: &*fabric, outbox: Outbox::default(), inbox: VecDeque::new(), deadline };
    let heap_object = SharedObject::new(len_of(config.heap_bytes)?)?;
    let heap = Heap::new(heap_object.len() as u64, 0);
    let heap = heap.map_err(|error| Error::Protocol { reason: error.to_string() })?;
    let largest = newcomer.exchange_hellos(heap_object.len() as u64)?;
    let (reservation, span) = newcomer.agree_on_addresses(Span::stride_for(largest))?;
    let mut space = AddressSpace::new(reservation, span);
    let own = space.map(fabric.node(), heap_object)?;
    let (heap_region, heaps) = newcomer.share(own, |peer, object| space.map(peer, object))?;
    let windows = NodeId::all(fabric.nodes()).zip(heaps).map(|(node, heap)| match heap {
        Brought::Mapped(memory) => Ok(Window { memory, is_far: false }),
        Brought::Far(len) => {
            let memory = space.map(node, SharedObject::new(len_of(len)?)?)?;
            Ok(Window { memory, is_far: true })
        }
    });
    let windows = windows.collect::<Result<_>>()?;
    space.set_windows(windows);
    let page = Arc::new(Mapping::new(sync::PAGE_LEN)?);
    let (pages_region, pages) = newcomer.share(page, |_, object| Ok(Arc::new(object.map()?)))?;
    let barrier = Barrier::new(pages_region, pages.into_iter().map(Brought::mapped).collect());
    barrier.wait(&*fabric, &mut || _ = newcomer.take_in(), Deadline::At(deadline))?;
    let Newcomer { outbox, inbox, .. } = newcomer;
    let parts = Parts { fabric, config, space, heap, heap_region, barrier, outbox };
    Ok((Shared::new(parts), inbox))
}

/// The fabric of the cluster that this process was invited to, or of one of its own.
fn connect(config: &Config, deadline: Instant) -> Result<Box<dyn Fabric>> {
    let Some(invitation) = Invitation::from_env()? else {
        return Ok(Box::new(Shm::connect(Meeting::alone(), deadline)?));
    };
    let meeting = bootstrap::join(&invitation, &build(), deadline)?;
    if config.choice.allows_shm() && meeting.is_on_one_host() {
        return Ok(Box::new(Shm::connect(meeting, deadline)?));
    }
    Ok(Box::new(Paths::connect(meeting, config.choice, deadline)?))
}

/// What nodes must have in common: what they say to each other, and the types that they share.
fn build() -> Build {
    let software = format!("pangea {} (messages {})", env!("CARGO_PKG_VERSION"), wire::VERSION);
    Build::new(&software, TYPES.iter().map(|(name, layout)| (*name, layout.number())))
}

fn len_of(heap_bytes: u64) -> Result<usize> {
    usize::try_from(heap_bytes).map_err(|_| Error::Config {
        field: "PANGEA_HEAP",
        reason: format!("{heap_bytes} bytes are more than an address space has"),
    })
}

/// Memory that every node brings, as this one reaches it.
enum Brought {
    /// Mapped here: this node's own, or of the same host.
    Mapped(Arc<Mapping>),
    /// By operations only; so many bytes.
    Far(u64),
}

impl Brought {
    fn mapped(self) -> Option<Arc<Mapping>> {
        match self {
            Self::Mapped(memory) => Some(memory),
            Self::Far(_) => None,
        }
    }
}

/// A node that is joining.
struct Newcomer<'a> {
    fabric: &'a dyn Fabric,
    outbox: Outbox,
    // What has come and is not yet asked for: others may be further on.
    inbox: VecDeque<(NodeId, Message)>,
    deadline: Instant,
}

impl Newcomer<'_> {
    fn peers(&self) -> impl Iterator<Item = NodeId> + use<> {
        let own = self.fabric.node();
        NodeId::all(self.fabric.nodes()).filter(move |&node| node != own)
    }

    fn tell_all(&self, message: &Message) -> Result {
        self.peers().try_for_each(|peer| self.outbox.send(self.fabric, peer, message))
    }

    /// The next message for which `take` returns something; others stay for later.
    fn await_message<T>(
        &mut self,
        waiting_for: &str,
        take: impl Fn(NodeId, &Message) -> Option<T>,
    ) -> Result<T> {
        let start = Instant::now();
        loop {
            let found = self.inbox.iter().enumerate();
            let mut found =
                found.filter_map(|(at, (node, message))| Some((at, take(*node, message)?)));
            if let Some((at, taken)) = found.next() {
                self.inbox.remove(at);
                return Ok(taken);
            }
            // Read before the messages: those that a node sent before it was lost are among them.
            let epoch = self.fabric.epoch();
            let lost = first_gone(self.fabric, &|_| true);
            let count = self.take_in();
            if let (0, Some(node)) = (count, lost) {
                return Err(Error::PeerLost { node, epoch: self.fabric.epoch() });
            }
            if count == 0 && !self.fabric.wait(epoch, self.deadline) {
                let waiting_for = waiting_for.to_owned();
                return Err(Error::TimedOut { waiting_for, after: start.elapsed() });
            }
        }
    }

    /// Takes in what has come; returns how many messages that was.
    fn take_in(&mut self) -> usize {
        let inbox = &mut self.inbox;
        let count = receive(self.fabric, &self.outbox, &mut |node, message| {
            inbox.push_back((node, message));
        });
        self.outbox.flush(self.fabric);
        count
    }

    /// Tells everybody what this node brings; returns the size of the largest heap.
    fn exchange_hellos(&mut self, heap_bytes: u64) -> Result<u64> {
        self.tell_all(&Message::Hello { version: wire::VERSION, heap_bytes })?;
        let mut largest = heap_bytes;
        for peer in self.peers() {
            let (version, heap_bytes) = self.await_message(
                &format!("{peer} to say hello"),
                |node, message| match message {
                    Message::Hello { version, heap_bytes } if node == peer => {
                        Some((*version, *heap_bytes))
                    }
                    _ => None,
                },
            )?;
            if version != wire::VERSION {
                let ours = wire::VERSION;
                let reason = format!("{peer} speaks version {version}, this node {ours}");
                return Err(Error::Protocol { reason });
            }
            largest = largest.max(heap_bytes);
        }
        Ok(largest)
    }

    /// Finds a range that is free on all nodes.
    fn agree_on_addresses(&mut self, stride: u64) -> Result<(Reservation, Span)> {
        if self.fabric.node().number() == 0 {
            self.propose_addresses(stride)
        } else {
            self.answer_proposals(stride)
        }
    }

    fn propose_addresses(&mut self, stride: u64) -> Result<(Reservation, Span)> {
        for attempt in 0..CANDIDATES {
            let span = Span::candidate(self.fabric.nodes(), stride, attempt)?;
            // An error is as good as a range that is taken: another may be free, or none is.
            let Some(reservation) = span.reserve().ok().flatten() else { continue };
            self.tell_all(&Message::Propose { base: span.base, stride })?;
            let mut is_settled = true;
            for peer in self.peers() {
                let waiting_for = format!("{peer} to answer a proposal of addresses");
                is_settled &= self.await_message(&waiting_for, |node, message| match message {
                    Message::Answer { is_free } if node == peer => Some(*is_free),
                    _ => None,
                })?;
            }
            self.tell_all(&Message::Settle { is_settled })?;
            if is_settled {
                return Ok((reservation, span));
            }
        }
        Err(Error::Config {
            field: "PANGEA_HEAP",
            reason: format!(
                "no range of {} times {stride} bytes is free on all nodes ({CANDIDATES} attempts); \
                 make the heaps smaller or lift the limit on addresses (ulimit -v)",
                self.fabric.nodes()
            ),
        })
    }

    fn answer_proposals(&mut self, stride: u64) -> Result<(Reservation, Span)> {
        let proposer = NodeId::new(0);
        loop {
            let base =
                self.await_message("node 0 to propose addresses", |node, message| match message {
                    Message::Propose { base, stride: proposed }
                        if node == proposer && *proposed == stride =>
                    {
                        Some(*base)
                    }
                    _ => None,
                })?;
            let span = Span { base, stride, nodes: self.fabric.nodes() };
            let reservation = span.reserve().ok().flatten();
            let answer = Message::Answer { is_free: reservation.is_some() };
            self.outbox.send(self.fabric, proposer, &answer)?;
            let is_settled = self.await_message(
                "node 0 to settle the addresses",
                |node, message| match message {
                    Message::Settle { is_settled } if node == proposer => Some(*is_settled),
                    _ => None,
                },
            )?;
            if let (true, Some(reservation)) = (is_settled, reservation) {
                return Ok((reservation, span));
            }
        }
    }

    /// Shares `own` with everybody, and maps what they share as far as it can be; all of them, by
    /// node.
    fn share(
        &self,
        own: Arc<Mapping>,
        map: impl Fn(NodeId, SharedObject) -> Result<Arc<Mapping>>,
    ) -> Result<(Region, Vec<Brought>)> {
        let region: Region = self.fabric.register(own.clone())?;
        let reach = |node| {
            if node == self.fabric.node() {
                return Ok(Brought::Mapped(own.clone()));
            }
            match self.fabric.region(node, region, self.deadline)? {
                PeerMemory::Object(object) => {
                    let memory = map(node, object)?;
                    self.fabric.attach(node, region, memory.clone());
                    Ok(Brought::Mapped(memory))
                }
                PeerMemory::Remote(len) => Ok(Brought::Far(len)),
            }
        };
        let brought = NodeId::all(self.fabric.nodes()).map(reach).collect::<Result<_>>()?;
        Ok((region, brought))
    }
}
