//! The thread that watches the nodes of this host: it reads what they announce, sees that they end,
//! and looks for their signs of life, as it gives its own.

use std::{
    net::Shutdown,
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{Arc, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::{
    membership::{Letter, Membership, News, is_hang_up},
    segment::Segment,
};
use crate::{
    Error, NodeId, Result, descriptor,
    links::{BEAT, SILENT_BEATS},
    roster::Departure,
};

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
            .name(format!("pangea watch {}", membership.roster.node().number()))
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

/// A peer, as the watching thread sees it.
struct Watched<'a> {
    peer: NodeId,
    socket: &'a UnixStream,
    letter: Letter,
    // Its signs of life at the last look, and at how many looks before they were the same.
    beats: u32,
    silent_beats: u32,
}

impl<'a> Watched<'a> {
    fn new(peer: NodeId, socket: &'a UnixStream) -> Self {
        Self { peer, socket, letter: Letter::default(), beats: 0, silent_beats: 0 }
    }

    /// Looks for signs of life; whether the peer stays.
    fn look(&mut self, membership: &Membership, own: &Segment) -> bool {
        let beats = membership.segments[self.peer.index()].get().map(|segment| segment.beats());
        let is_silent = beats == Some(self.beats);
        self.silent_beats = if is_silent { self.silent_beats + 1 } else { 0 };
        self.beats = beats.unwrap_or_default();
        if self.silent_beats < SILENT_BEATS {
            return true;
        }
        // If it goes on after all, it learns that nobody counts on it any more.
        _ = self.socket.shutdown(Shutdown::Both);
        membership.lose(self.peer, Departure::Died, own);
        false
    }

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
                died.into_iter().for_each(|node| membership.lose(node, Departure::Died, own));
                membership.lose(self.peer, Departure::Left, own);
            }
            Err(error) => {
                if !matches!(&error, Error::Os { source, .. } if is_hang_up(source)) {
                    *membership.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                }
                membership.lose(self.peer, Departure::Died, own);
            }
        }
        false
    }
}

fn watch(membership: &Membership, own: &Segment, stopped: &UnixStream) {
    let sockets = NodeId::all(u16::MAX).zip(&membership.sockets);
    let mut peers: Vec<Watched<'_>> =
        sockets.filter_map(|(peer, socket)| Some(Watched::new(peer, socket.as_ref()?))).collect();
    let mut next_beat = Instant::now() + BEAT;
    loop {
        let sockets = peers.iter().map(|watched| watched.socket).chain([stopped]);
        let mut polled: Vec<libc::pollfd> = sockets.map(descriptor::input).collect();
        // Who has nobody to watch waits to be stopped.
        let nap = next_beat.saturating_duration_since(Instant::now());
        let timeout = (!peers.is_empty()).then(|| nap + Duration::from_millis(1));
        if descriptor::await_input(&mut polled, timeout) {
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
        let now = Instant::now();
        if now >= next_beat {
            next_beat = now + BEAT;
            own.beat();
            peers.retain_mut(|watched| watched.look(membership, own));
        }
    }
}
