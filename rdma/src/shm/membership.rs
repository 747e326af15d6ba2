//! Who is still there, and what memory they have announced.
//!
//! Every pair of nodes holds the two ends of a Unix socket. The system closes the ends of a process
//! that dies, however it dies: the other end reads the end of the stream, at no cost until then.
//! One thread a node blocks on all of its sockets. The sockets also carry descriptors of memory.

use std::{
    collections::HashMap,
    io::{self, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::segment::Segment;
use crate::{
    Error, Mapping, NodeId, Presence, Region, Result, SharedObject, descriptor,
    primitive::{AtomicU32, AtomicU64, Ordering},
};

/// Bytes of an announcement: region (4), zero (4), length (8); little-endian. The memory's
/// descriptor is passed with it.
const ANNOUNCEMENT_LEN: usize = 16;
/// Regions that a peer may announce; more is a breach of the protocol.
const REGIONS_MAX: u32 = 1024;

/// Announced in the place of a region, without a descriptor, by a node that leaves; in the place of
/// the length, one more than the number of the node that died, if one did.
const GOODBYE: Region = Region(u32::MAX);

/// States of a peer, in `presence`.
const HERE: u32 = 0;
const LEFT: u32 = 1;
pub(super) const DIED: u32 = 2;

/// The nodes of the cluster, as this one sees them.
#[derive(Debug)]
pub(super) struct Membership {
    node: NodeId,
    // By node; `None` for this one.
    sockets: Vec<Option<UnixStream>>,
    // To the launcher.
    lifeline: Option<UnixStream>,
    presence: Vec<AtomicU32>,
    epoch: AtomicU64,
    announced: Mutex<HashMap<(NodeId, Region), SharedObject>>,
    changed: Condvar,
    // What kept this node from hearing a peer, which is then taken for dead.
    fault: Mutex<Option<Error>>,
}

impl Membership {
    pub(super) fn new(
        node: NodeId,
        sockets: Vec<Option<UnixStream>>,
        lifeline: Option<UnixStream>,
    ) -> Self {
        let presence = sockets.iter().map(|_| AtomicU32::new(HERE)).collect();
        let (announced, changed, fault) = Default::default();
        let epoch = AtomicU64::new(1);
        Self { node, sockets, lifeline, presence, epoch, announced, changed, fault }
    }

    /// Whether `peer` is there.
    #[inline]
    pub(super) fn presence(&self, peer: NodeId) -> Presence {
        // Acquire: pairs with the Release in `lose`; who sees the loss sees all that the peer did
        // before.
        match self.presence.get(peer.index()).map(|state| state.load(Ordering::Acquire)) {
            Some(HERE) => Presence::Here,
            Some(LEFT) => Presence::Left,
            // A node that there is not is as good as dead.
            _ => Presence::Died,
        }
    }

    /// Grows with every loss.
    #[inline]
    pub(super) fn epoch(&self) -> u64 {
        // Acquire: pairs with the Release in `lose`.
        self.epoch.load(Ordering::Acquire)
    }

    /// Tells every peer of `memory`, which is `region` here.
    pub(super) fn announce(&self, region: Region, memory: &Mapping) -> Result {
        let frame = announcement(region, memory.len() as u64);
        for socket in self.sockets.iter().flatten() {
            match descriptor::send(socket, &frame, Some(memory.object().descriptor())) {
                Ok(()) => {}
                // The peer is gone: the watching thread sees that too, and says who.
                Err(error) if is_hang_up(&error) => {}
                Err(error) => return Err(Error::os("announcing a region")(error)),
            }
        }
        Ok(())
    }

    /// Tells every peer that this node leaves, and means to.
    pub(super) fn say_goodbye(&self) {
        let mut nodes = NodeId::all(u16::MAX).take(self.presence.len());
        let died = nodes.find(|&node| self.presence(node) == Presence::Died);
        let died = died.map_or(0, |node| u64::from(node.number()) + 1);
        for socket in self.sockets.iter().flatten() {
            // A peer that cannot hear it has left before.
            _ = descriptor::send(socket, &announcement(GOODBYE, died), None);
        }
    }

    /// Waits until `peer` has announced `region`, and takes its object.
    pub(super) fn take(
        &self,
        peer: NodeId,
        region: Region,
        deadline: Instant,
    ) -> Result<SharedObject> {
        let start = Instant::now();
        let mut announced = self.lock();
        loop {
            if let Some(object) = announced.remove(&(peer, region)) {
                return Ok(object);
            }
            if self.presence(peer) != Presence::Here {
                let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
                let lost = || Error::PeerLost { node: peer, epoch: self.epoch() };
                return Err(fault.unwrap_or_else(lost));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let waiting_for = format!("{peer} to announce region {}", region.0);
                return Err(Error::TimedOut { waiting_for, after: start.elapsed() });
            }
            announced = match self.changed.wait_timeout(announced, left) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// The table of announcements; a thread that panicked with it left it whole.
    fn lock(&self) -> MutexGuard<'_, HashMap<(NodeId, Region), SharedObject>> {
        self.announced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an announcement of `peer`; an error means that it died, or might as well have.
    fn take_in(&self, peer: NodeId, letter: Letter) -> Result<News> {
        let (region, rest) = letter.frame.split_at(4);
        let region = u32::from_le_bytes(region.try_into().expect("four bytes"));
        let len = u64::from_le_bytes(rest[4..].try_into().expect("eight bytes"));
        if Region(region) == GOODBYE {
            let died = len.checked_sub(1).and_then(|number| u16::try_from(number).ok());
            return Ok(News::Goodbye { died: died.map(NodeId::new) });
        }
        let Some(descriptor) = letter.descriptor.filter(|_| region < REGIONS_MAX) else {
            return Err(Error::protocol(format!("{peer} announced region {region} wrongly")));
        };
        let object = SharedObject::from_peer(descriptor, len)?;
        self.lock().insert((peer, Region(region)), object);
        self.changed.notify_all();
        Ok(News::Region)
    }

    /// Takes `peer` for gone, unless it was before, and wakes all who may wait for it.
    pub(super) fn lose(&self, peer: NodeId, presence: u32, own: &Segment) {
        if peer == self.node || self.presence(peer) != Presence::Here {
            return;
        }
        if let Some(mut lifeline) = self.lifeline.as_ref() {
            // First, so that the launcher knows before this node can fail for it. A launcher that
            // is gone need not be told.
            _ = lifeline.write_all(&peer.number().to_le_bytes());
        }
        // Release: pairs with the Acquire in `presence`.
        self.presence[peer.index()].store(presence, Ordering::Release);
        // Release: pairs with the Acquire in `epoch`; who sees the new epoch sees who is gone.
        self.epoch.fetch_add(1, Ordering::Release);
        // Held while notifying, so that a thread between its look and its wait is not missed.
        let announced = self.lock();
        self.changed.notify_all();
        drop(announced);
        own.messages().ring();
        own.signals().ring();
    }
}

/// What a peer has told.
enum News {
    Region,
    Goodbye { died: Option<NodeId> },
}

/// The thread that watches the peers of a node; ends when dropped.
#[derive(Debug)]
pub(super) struct Watch {
    // Its other end is polled; dropping this one ends the thread.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts to watch; losses are written to `membership` and ring `own`'s doorbells.
    pub(super) fn start(membership: Arc<Membership>, own: Arc<Segment>) -> Result<Self> {
        let (stop, stopped) = UnixStream::pair().map_err(Error::os("socketpair"))?;
        let thread = thread::Builder::new()
            .name(format!("pangea watch {}", membership.node.number()))
            .spawn(move || watch(&membership, &own, &stopped))
            .map_err(Error::os("starting a thread"))?;
        Ok(Self { stop: Some(stop.into()), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has no more to do than to return from `poll`; a panic there was reported already.
            let _ = thread.join();
        }
    }
}

/// An announcement, as far as it has come.
#[derive(Debug, Default)]
struct Letter {
    frame: [u8; ANNOUNCEMENT_LEN],
    filled: usize,
    descriptor: Option<OwnedFd>,
}

impl Letter {
    /// Receives what has come, without waiting for the rest; whether it is whole.
    fn receive(&mut self, socket: &UnixStream) -> io::Result<bool> {
        let rest = &mut self.frame[self.filled..];
        let (count, descriptor) = match descriptor::receive(socket, rest, libc::MSG_DONTWAIT) {
            Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            received => received?,
        };
        self.filled += count;
        self.descriptor = self.descriptor.take().or(descriptor);
        Ok(self.filled == self.frame.len())
    }
}

/// A peer, as the watching thread sees it.
struct Watched<'a> {
    peer: NodeId,
    socket: &'a UnixStream,
    letter: Letter,
}

impl Watched<'_> {
    /// Takes in what has come; whether the peer stays.
    fn listen(&mut self, membership: &Membership, own: &Segment) -> bool {
        let news = match self.letter.receive(self.socket) {
            Ok(false) => return true,
            Ok(true) => membership.take_in(self.peer, std::mem::take(&mut self.letter)),
            Err(error) => Err(Error::os("receiving an announcement")(error)),
        };
        match news {
            Ok(News::Region) => return true,
            Ok(News::Goodbye { died }) => {
                // First, so that who waits hears of the cause before its consequence.
                died.into_iter().for_each(|node| membership.lose(node, DIED, own));
                membership.lose(self.peer, LEFT, own);
            }
            Err(error) => {
                if !matches!(&error, Error::Os { source, .. } if is_hang_up(source)) {
                    *membership.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                }
                membership.lose(self.peer, DIED, own);
            }
        }
        false
    }
}

fn watch(membership: &Membership, own: &Segment, stopped: &UnixStream) {
    let sockets = NodeId::all(u16::MAX).zip(&membership.sockets);
    let mut peers: Vec<Watched<'_>> = sockets
        .filter_map(|(peer, socket)| {
            Some(Watched { peer, socket: socket.as_ref()?, letter: Letter::default() })
        })
        .collect();
    loop {
        let sockets = peers.iter().map(|watched| watched.socket).chain([stopped]);
        let mut polled: Vec<libc::pollfd> = sockets.map(descriptor::input).collect();
        if !descriptor::await_input(&mut polled, None) {
            continue;
        }
        let (stop, polled) = polled.split_last().expect("`stopped` is one of them");
        if stop.revents != 0 {
            return;
        }
        let mut states = polled.iter();
        peers.retain_mut(|watched| {
            let is_quiet = states.next().is_none_or(|state| state.revents == 0);
            is_quiet || watched.listen(membership, own)
        });
    }
}

fn announcement(region: Region, len: u64) -> [u8; ANNOUNCEMENT_LEN] {
    let mut frame = [0; ANNOUNCEMENT_LEN];
    frame[..4].copy_from_slice(&region.0.to_le_bytes());
    frame[8..].copy_from_slice(&len.to_le_bytes());
    frame
}

fn is_hang_up(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(error.kind(), E::BrokenPipe | E::ConnectionReset | E::UnexpectedEof)
}

/// How long a peer may take to read an announcement.
pub(super) const ANNOUNCEMENT_TIMEOUT: Duration = Duration::from_secs(5);
