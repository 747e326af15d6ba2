//! Joining: the nodes meet, tell each other what they bring, agree on addresses, map each other's
//! heaps, and pass a first barrier.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use pangea_alloc::Heap;
use pangea_rdma::{
    Fabric, Mapping, NodeId, Region, Reservation, SharedObject,
    bootstrap::{Meeting, local},
    shm::Shm,
};

use crate::{
    Config, Error, Result,
    address_space::{AddressSpace, CANDIDATES, Span},
    outbox::Outbox,
    progress::{Parts, Shared, receive},
    sync::{self, Barrier, Deadline},
    wire::{self, Message},
};

/// Joins the cluster that this process was invited to, or one of its own; with it comes what others
/// have sent already.
pub(crate) fn join(config: Config) -> Result<(Shared, VecDeque<(NodeId, Message)>)> {
    config.check()?;
    let deadline = Instant::now() + config.join_timeout;
    let meeting = match local::Invitation::from_env()? {
        Some(invitation) => local::join(&invitation, deadline)?,
        None => Meeting::alone(),
    };
    let fabric = Shm::connect(meeting, deadline)?;
    let mut newcomer =
        Newcomer { fabric: &fabric, outbox: Outbox::default(), inbox: VecDeque::new(), deadline };
    let heap_object = SharedObject::new(usize::try_from(config.heap_bytes).map_err(|_| {
        Error::Config { field: "PANGEA_HEAP", reason: "more than an address space".to_owned() }
    })?)?;
    let heap = Heap::new(heap_object.len() as u64, 0);
    let heap = heap.map_err(|error| Error::Protocol { reason: error.to_string() })?;
    let largest = newcomer.exchange_hellos(heap_object.len() as u64)?;
    let (reservation, span) = newcomer.agree_on_addresses(Span::stride_for(largest))?;
    let mut space = AddressSpace::new(reservation, span);
    let own = space.map(fabric.node(), heap_object)?;
    let windows = newcomer.share(own, |peer, object| space.map(peer, object))?;
    space.set_windows(windows);
    let page = Arc::new(Mapping::new(sync::PAGE_LEN)?);
    let pages = newcomer.share(page, |_, object| Ok(Arc::new(object.map()?)))?;
    let barrier = Barrier::new(pages);
    barrier.wait(&fabric, Deadline::At(deadline))?;
    let Newcomer { outbox, inbox, .. } = newcomer;
    let parts = Parts { fabric: Box::new(fabric), config, space, heap, barrier, outbox };
    Ok((Shared::new(parts), inbox))
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
            let lost = self.peers().find(|&peer| self.fabric.is_lost(peer));
            let inbox = &mut self.inbox;
            let count = receive(self.fabric, &self.outbox, &mut |node, message| {
                inbox.push_back((node, message));
            });
            self.outbox.flush(self.fabric);
            if let (0, Some(node)) = (count, lost) {
                return Err(Error::PeerLost { node, epoch: self.fabric.epoch() });
            }
            if count == 0 && !self.fabric.wait(epoch, self.deadline) {
                let waiting_for = waiting_for.to_owned();
                return Err(Error::TimedOut { waiting_for, after: start.elapsed() });
            }
        }
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

    /// Shares `own` with everybody, and maps what they share; all of them, by node.
    fn share(
        &self,
        own: Arc<Mapping>,
        map: impl Fn(NodeId, SharedObject) -> Result<Arc<Mapping>>,
    ) -> Result<Vec<Arc<Mapping>>> {
        let region: Region = self.fabric.register(own.clone())?;
        NodeId::all(self.fabric.nodes())
            .map(|node| {
                if node == self.fabric.node() {
                    return Ok(own.clone());
                }
                let mapping = map(node, self.fabric.object(node, region, self.deadline)?)?;
                self.fabric.attach(node, region, mapping.clone());
                Ok(mapping)
            })
            .collect()
    }
}
