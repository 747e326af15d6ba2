//! Who is still there, and what memory they have announced.
//!
//! Every pair of nodes holds the two ends of a Unix socket. The system closes the ends of a process
//! that dies, however it dies: the other end reads the end of the stream, at no cost until then.
//! The sockets also carry descriptors of memory. See `watch.rs` for who reads them.

use std::{
    collections::HashMap,
    io,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use super::segment::Segment;
use crate::{
    Error, Mapping, NodeId, Presence, Region, Result, SharedObject,
    bell::Rope,
    descriptor,
    roster::{Departure, Roster},
};

/// Bytes of an announcement: region (4), zero (4), length (8); little-endian. The memory's
/// descriptor is passed with it.
const ANNOUNCEMENT_LEN: usize = 16;
/// Regions that a peer may announce; more is a breach of the protocol.
const REGIONS_MAX: u32 = 1024;

/// Announced in the place of a region, without a descriptor, by a node that leaves; in the place of
/// the length, one more than the number of the node that died, if one did.
const GOODBYE: Region = Region(u32::MAX);
/// Announced in the place of a region, with the rope of the node's bell.
const BELL: Region = Region(u32::MAX - 1);

/// What a peer has announced.
#[derive(Debug)]
enum Announced {
    Memory(SharedObject),
    Bell(Rope),
}

/// The nodes of this host, as this one hears of them.
#[derive(Debug)]
pub(super) struct Membership {
    pub(super) roster: Arc<Roster>,
    // By node; `None` for this one, and for those of other hosts.
    pub(super) sockets: Vec<Option<UnixStream>>,
    announced: Mutex<HashMap<(NodeId, Region), Announced>>,
    changed: Condvar,
    // By node: where its signs of life are, once that is known.
    pub(super) segments: Vec<OnceLock<Arc<Segment>>>,
    // What kept this node from hearing a peer, which is then taken for dead.
    pub(super) fault: Mutex<Option<Error>>,
}

impl Membership {
    pub(super) fn new(roster: Arc<Roster>, sockets: Vec<Option<UnixStream>>) -> Self {
        let (announced, changed, fault) = Default::default();
        let segments = sockets.iter().map(|_| OnceLock::new()).collect();
        Self { roster, sockets, announced, changed, segments, fault }
    }

    /// Tells every peer of `memory`, which is `region` here.
    pub(super) fn announce(&self, region: Region, memory: &Mapping) -> Result {
        let frame = announcement(region, memory.len() as u64);
        self.pass(&frame, memory.object().descriptor())
    }

    /// Tells every peer by which rope to wake this node.
    pub(super) fn announce_bell(&self, rope: &Rope) -> Result {
        self.pass(&announcement(BELL, 0), rope.descriptor())
    }

    fn pass(&self, frame: &[u8], descriptor: BorrowedFd<'_>) -> Result {
        for socket in self.sockets.iter().flatten() {
            match descriptor::send(socket, frame, Some(descriptor)) {
                Ok(()) => {}
                // The peer is gone: the watching thread sees that too, and says who.
                Err(error) if is_hang_up(&error) => {}
                Err(error) => return Err(Error::os("announcing to a peer")(error)),
            }
        }
        Ok(())
    }

    /// Tells every peer that this node leaves, and means to.
    pub(super) fn say_goodbye(&self) {
        let died = self.roster.first_dead().map_or(0, |node| u64::from(node.number()) + 1);
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
        match self.take_announced(peer, region, deadline)? {
            Announced::Memory(object) => Ok(object),
            Announced::Bell(_) => unreachable!("a bell is announced under a number of its own"),
        }
    }

    /// Waits until `peer` has announced its bell.
    pub(super) fn take_bell(&self, peer: NodeId, deadline: Instant) -> Result<Rope> {
        match self.take_announced(peer, BELL, deadline)? {
            Announced::Bell(rope) => Ok(rope),
            Announced::Memory(_) => unreachable!("a bell is announced under a number of its own"),
        }
    }

    fn take_announced(&self, peer: NodeId, region: Region, deadline: Instant) -> Result<Announced> {
        let start = Instant::now();
        let mut announced = self.lock();
        loop {
            if let Some(object) = announced.remove(&(peer, region)) {
                return Ok(object);
            }
            if self.roster.presence(peer) != Presence::Here {
                let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
                return Err(fault.unwrap_or_else(|| self.roster.lost(peer)));
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
    fn lock(&self) -> MutexGuard<'_, HashMap<(NodeId, Region), Announced>> {
        self.announced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an announcement of `peer`; an error means that it died, or might as well have.
    pub(super) fn take_in(&self, peer: NodeId, letter: Letter) -> Result<News> {
        let (region, rest) = letter.frame.split_at(4);
        let region = u32::from_le_bytes(region.try_into().expect("four bytes"));
        let len = u64::from_le_bytes(rest[4..].try_into().expect("eight bytes"));
        if Region(region) == GOODBYE {
            let died = len.checked_sub(1).and_then(|number| u16::try_from(number).ok());
            return Ok(News::Goodbye { died: died.map(NodeId::new) });
        }
        let is_bell = Region(region) == BELL;
        let descriptor = letter.descriptor.filter(|_| region < REGIONS_MAX || is_bell);
        let Some(descriptor) = descriptor else {
            return Err(Error::protocol(format!("{peer} announced region {region} wrongly")));
        };
        let announced = if is_bell {
            Announced::Bell(Rope::from_peer(descriptor)?)
        } else {
            Announced::Memory(SharedObject::from_peer(descriptor, len)?)
        };
        self.lock().insert((peer, Region(region)), announced);
        self.changed.notify_all();
        Ok(News::Region)
    }

    /// Looks for signs of life of `peer` in its segment from now on.
    pub(super) fn meet(&self, peer: NodeId, segment: Arc<Segment>) {
        // Met once.
        _ = self.segments[peer.index()].set(segment);
    }

    /// Takes `peer` for gone, unless it was before, and wakes all who may wait for it.
    pub(super) fn lose(&self, peer: NodeId, departure: Departure, own: &Segment) {
        if !self.roster.lose(peer, departure) {
            return;
        }
        // Held while notifying, so that a thread between its look and its wait is not missed.
        let announced = self.lock();
        self.changed.notify_all();
        drop(announced);
        own.ring_messages();
        own.ring_signals();
    }
}

/// What a peer has told.
pub(super) enum News {
    Region,
    Goodbye { died: Option<NodeId> },
}

/// An announcement, as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Letter {
    frame: [u8; ANNOUNCEMENT_LEN],
    filled: usize,
    descriptor: Option<OwnedFd>,
}

impl Letter {
    /// Receives what has come, without waiting for the rest; whether it is whole.
    pub(super) fn receive(&mut self, socket: &UnixStream) -> io::Result<bool> {
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

fn announcement(region: Region, len: u64) -> [u8; ANNOUNCEMENT_LEN] {
    let mut frame = [0; ANNOUNCEMENT_LEN];
    frame[..4].copy_from_slice(&region.0.to_le_bytes());
    frame[8..].copy_from_slice(&len.to_le_bytes());
    frame
}

pub(super) fn is_hang_up(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(error.kind(), E::BrokenPipe | E::ConnectionReset | E::UnexpectedEof)
}

/// How long a peer may take to read an announcement.
pub(super) const ANNOUNCEMENT_TIMEOUT: Duration = Duration::from_secs(5);
