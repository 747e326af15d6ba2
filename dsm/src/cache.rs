//! What this node has fetched of frozen vectors whose homes are on other hosts.
//!
//! A window of such a home is memory of this process, in which pieces appear where they are at
//! home. A piece is what one vector has in one block, so that it is frozen as a whole. It is
//! fetched once, and stays: while a slice of it may be borrowed, for certain; else until the limit
//! on fetched memory makes room for others, the least recently asked for first.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

use pangea_rdma::NodeId;

use crate::{Error, Result};

/// Bytes of a block.
pub(crate) const BLOCK: u64 = 16 << 10;

/// The pieces that were fetched, of all homes.
#[derive(Debug)]
pub(crate) struct Cache {
    limit: u64,
    state: Mutex<State>,
}

/// Where a piece begins.
pub(crate) type Place = (NodeId, u64);

#[derive(Debug, Default)]
struct State {
    pieces: HashMap<Place, Piece>,
    // Those that may be given up, by when they were last asked for.
    idle: BTreeMap<u64, Place>,
    idle_bytes: u64,
    // Of all pieces.
    bytes: u64,
    // Counts what was asked for.
    clock: u64,
}

#[derive(Debug)]
struct Piece {
    len: u64,
    // Another each time that it is fetched.
    birth: u64,
    is_there: bool,
    // Vectors of which a slice with this piece may be borrowed.
    pins: u32,
    // Its key in `idle`, if it is there.
    asked: u64,
}

/// A piece that somebody else is fetching.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    pub(crate) place: Place,
    birth: u64,
}

/// What is to be done for a range to be there.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// To be fetched by who asked, and then handed to [`Cache::settle`].
    pub(crate) fetch: Vec<Range<u64>>,
    /// Being fetched by others.
    pub(crate) awaited: Vec<Awaited>,
}

/// What is wanted of a vector.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) home: NodeId,
    /// Bytes in the home's heap: whole pieces of one vector.
    pub(crate) bytes: Range<u64>,
    /// A slice of them is to be borrowed.
    pub(crate) pins: bool,
}

impl Cache {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, state: Mutex::default() }
    }

    /// Takes note of what is `wanted`. What is given up for it is handed to `discard`, whose memory
    /// nobody borrows.
    ///
    /// # Errors
    ///
    /// [`Error::CacheFull`] where it does not fit the limit beside what may be borrowed; then
    /// nothing is changed.
    pub(crate) fn ask(&self, wanted: &Wanted, discard: &dyn Fn(Place, u64)) -> Result<Plan> {
        let state = &mut *self.lock();
        let (mut missing, mut kept) = (0, 0);
        for piece in pieces(&wanted.bytes) {
            match state.pieces.get(&(wanted.home, piece.start)) {
                None => missing += piece.end - piece.start,
                // It is not given up for the others.
                Some(known) if known.is_idle() => kept += known.len,
                Some(_) => {}
            }
        }
        let held = state.bytes - (state.idle_bytes - kept);
        if held + missing > self.limit {
            return Err(Error::CacheFull { wanted: missing, held, limit: self.limit });
        }
        let mut plan = Plan::default();
        for piece in pieces(&wanted.bytes) {
            state.ask_piece(wanted, piece, &mut plan);
        }
        state.make_room(self.limit, discard);
        if !wanted.pins {
            pieces(&wanted.bytes).for_each(|piece| state.rest((wanted.home, piece.start)));
        }
        Ok(plan)
    }

    /// Takes note that what was to be fetched is there; or is not, and is forgotten.
    pub(crate) fn settle(&self, home: NodeId, fetched: &[Range<u64>], is_there: bool) {
        let state = &mut *self.lock();
        for piece in fetched.iter().flat_map(pieces) {
            let place = (home, piece.start);
            if !is_there {
                state.forget(place);
            } else if let Some(piece) = state.pieces.get_mut(&place) {
                piece.is_there = true;
                state.rest(place);
            }
        }
    }

    /// Whether a piece that somebody else fetches is there; `None` where the fetch has failed.
    pub(crate) fn is_there(&self, awaited: Awaited) -> Option<bool> {
        let state = self.lock();
        let piece = state.pieces.get(&awaited.place);
        piece.filter(|piece| piece.birth == awaited.birth).map(|piece| piece.is_there)
    }

    /// Takes note that `bytes`, which were asked for with `pins` and are there, are not borrowed
    /// any more.
    pub(crate) fn unpin(&self, home: NodeId, bytes: &Range<u64>) {
        let state = &mut *self.lock();
        for piece in pieces(bytes) {
            let place = (home, piece.start);
            if let Some(piece) = state.pieces.get_mut(&place) {
                piece.pins -= 1;
                state.rest(place);
            }
        }
    }

    /// Takes back the pins of what was `wanted`, but for pieces of which some byte is in `failed`:
    /// those are forgotten, and with them their pins.
    pub(crate) fn unpin_but(&self, wanted: &Wanted, failed: &[Range<u64>]) {
        let has_failed = |piece: &Range<u64>| {
            failed.iter().any(|run| run.start < piece.end && piece.start < run.end)
        };
        for piece in pieces(&wanted.bytes).filter(|piece| !has_failed(piece)) {
            self.unpin(wanted.home, &piece);
        }
    }

    /// Forgets what is no vector's any more, and nobody borrows; `false` where some of it is still
    /// being fetched.
    pub(crate) fn forget(&self, home: NodeId, bytes: &Range<u64>) -> bool {
        let state = &mut *self.lock();
        let mut is_quiet = true;
        for piece in pieces(bytes) {
            let place = (home, piece.start);
            if state.pieces.get(&place).is_some_and(|piece| !piece.is_there) {
                is_quiet = false;
            } else {
                state.forget(place);
            }
        }
        is_quiet
    }

    /// Bytes that were fetched and are there, or will be.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn ask_piece(&mut self, wanted: &Wanted, range: Range<u64>, plan: &mut Plan) {
        let place = (wanted.home, range.start);
        self.rouse(place);
        self.clock += 1;
        let (pins, now) = (u32::from(wanted.pins), self.clock);
        if let Some(piece) = self.pieces.get_mut(&place) {
            (piece.asked, piece.pins) = (now, piece.pins + pins);
            if !piece.is_there {
                plan.awaited.push(Awaited { place, birth: piece.birth });
            }
            return;
        }
        let len = range.end - range.start;
        self.pieces.insert(place, Piece { len, birth: now, is_there: false, pins, asked: now });
        self.bytes += len;
        match plan.fetch.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => plan.fetch.push(range),
        }
    }

    /// Lets a piece be given up, if it is there and not pinned.
    fn rest(&mut self, place: Place) {
        let Some(piece) = self.pieces.get(&place).filter(|piece| piece.is_idle()) else { return };
        if self.idle.insert(piece.asked, place).is_none() {
            self.idle_bytes += piece.len;
        }
    }

    /// Keeps a piece from being given up.
    fn rouse(&mut self, place: Place) {
        let Some(piece) = self.pieces.get(&place) else { return };
        if self.idle.remove(&piece.asked).is_some() {
            self.idle_bytes -= piece.len;
        }
    }

    /// Gives up pieces, those not asked for the longest first, until all fit `limit`.
    fn make_room(&mut self, limit: u64, discard: &dyn Fn(Place, u64)) {
        while self.bytes > limit
            && let Some((_, &place)) = self.idle.first_key_value()
        {
            let len = self.pieces.get(&place).map_or(0, |piece| piece.len);
            self.forget(place);
            discard(place, len);
        }
    }

    fn forget(&mut self, place: Place) {
        self.rouse(place);
        if let Some(piece) = self.pieces.remove(&place) {
            self.bytes -= piece.len;
        }
    }
}

impl Piece {
    fn is_idle(&self) -> bool {
        self.is_there && self.pins == 0
    }
}

/// What `bytes` have in each block.
fn pieces(bytes: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let (start, end) = (bytes.start, bytes.end);
    let blocks = start / BLOCK..end.div_ceil(BLOCK);
    let piece = move |block| start.max(block * BLOCK)..end.min((block + 1) * BLOCK);
    blocks.map(piece).filter(|piece| !piece.is_empty())
}

/// The whole pieces of a vector that has the bytes `all`, of which some of `bytes` are part.
pub(crate) fn whole_pieces(bytes: &Range<u64>, all: &Range<u64>) -> Range<u64> {
    let (start, end) = (bytes.start / BLOCK * BLOCK, bytes.end.next_multiple_of(BLOCK));
    start.max(all.start)..end.min(all.end)
}

#[cfg(test)]
mod tests;
