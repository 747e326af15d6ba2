//! The wire between two queue pairs: a lane of frames each way, in memory that both ends map.
//!
//! Nothing here knows whether the other end is alive: a lane whose reader has died is one that
//! takes nothing more.
//!
//! # Memory ordering
//!
//! `sent` is stored with Release when a frame is whole and loaded with Acquire before it is read;
//! `taken` is stored with Release when a frame has been read and loaded with Acquire before its
//! place is written again. `granted` orders nothing: no memory is reached through it.

use std::{
    cell::UnsafeCell,
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use crate::{
    cabling::Port,
    limit::FRAME_LEN,
    shared::{Share, Shared},
};

/// Frames under way on a lane: what stays in a second-level cache.
const PLACES: usize = 128;

/// A frame's head: its length, and whether it is the first or the last of its message. Frames carry
/// no more than these marks: no number, no addressee (`apple-rdma.md` 0).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) len: usize,
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
}

const FIRST: u32 = 1 << 16;
const LAST: u32 = 1 << 17;

impl Head {
    fn pack(self) -> u32 {
        let len = u32::try_from(self.len).expect("a frame is short");
        len | if self.is_first { FIRST } else { 0 } | if self.is_last { LAST } else { 0 }
    }

    fn unpack(word: u32) -> Self {
        let len = (word & (FIRST - 1)) as usize;
        let len = len.min(FRAME_LEN);
        Self { len, is_first: word & FIRST != 0, is_last: word & LAST != 0 }
    }
}

/// A counter on a cache line of its own.
#[derive(Debug)]
#[repr(C, align(128))]
struct Counter(AtomicU64);

#[derive(Debug)]
#[repr(C)]
struct Lane {
    // Frames put in, in all; the writer's.
    sent: Counter,
    // Frames taken out, in all; the reader's.
    taken: Counter,
    // Frames for which receives are posted, in all; the reader's.
    granted: Counter,
    heads: [AtomicU32; PLACES],
    frames: [UnsafeCell<[u8; FRAME_LEN]>; PLACES],
}

#[derive(Debug)]
#[repr(C)]
struct Lanes([Lane; 2]);

// SAFETY: frames are in `UnsafeCell`s, which `Writer` and `Reader` touch in turns (see the module's
// memory ordering); everything else is an atomic.
unsafe impl Sync for Lanes {}
// SAFETY: of atomics and bytes, for which zero is valid.
unsafe impl Share for Lanes {}

/// One end of a wire: writes one lane, reads the other.
#[derive(Debug)]
pub(crate) struct Wire {
    lanes: Shared<Lanes>,
    path: PathBuf,
    // Which lane this end writes.
    end: usize,
    // `sent` of the written lane, and what was last seen of its reader.
    sent: u64,
    room_until: u64,
    // `taken` and `granted` of the read lane.
    taken: u64,
    granted: u64,
}

impl Wire {
    /// The wire from queue pair `own` of one port to `peer` of another. Both ends find the same,
    /// which nobody else has: numbers of queue pairs are not used again.
    pub(crate) fn open(directory: &Path, own: (Port, u32), peer: (Port, u32)) -> io::Result<Self> {
        let [low, high] = if own < peer { [own, peer] } else { [peer, own] };
        let name = format!("wire-{}.{}-{}.{}", low.0, low.1, high.0, high.1);
        let path = directory.join(name);
        let lanes = Shared::open(&path)?;
        let end = usize::from(own > peer);
        Ok(Self { lanes, path, end, sent: 0, room_until: 0, taken: 0, granted: 0 })
    }

    /// Whether the reader has posted a receive for another frame, and the wire has room for it.
    pub(crate) fn has_room(&mut self) -> bool {
        if self.sent < self.room_until {
            return true;
        }
        let lane = &self.lanes.0[self.end];
        // Relaxed: see the module's memory ordering.
        let granted = lane.granted.0.load(Ordering::Relaxed);
        // Acquire: pairs with the Release in `take`; a place is written after it was read.
        let taken = lane.taken.0.load(Ordering::Acquire);
        self.room_until = granted.min(taken + PLACES as u64);
        self.sent < self.room_until
    }

    /// Sends a frame, which `fill` writes. There is room.
    pub(crate) fn put(&mut self, head: Head, fill: impl FnOnce(*mut u8)) {
        assert!(self.sent < self.room_until, "who sends has looked for room");
        let lane = &self.lanes.0[self.end];
        let place = place(self.sent);
        fill(lane.frames[place].get().cast());
        // Relaxed: published by `sent`.
        lane.heads[place].store(head.pack(), Ordering::Relaxed);
        self.sent += 1;
        // Release: pairs with the Acquire in `peek`; the frame is whole before it is counted.
        lane.sent.0.store(self.sent, Ordering::Release);
    }

    /// The next frame's head and bytes, if there is one; they stay until it is taken.
    pub(crate) fn peek(&self) -> Option<(Head, *const u8)> {
        let lane = &self.lanes.0[1 - self.end];
        // Acquire: pairs with the Release in `put`.
        if lane.sent.0.load(Ordering::Acquire) == self.taken {
            return None;
        }
        let place = place(self.taken);
        // Relaxed: published by `sent`.
        let head = Head::unpack(lane.heads[place].load(Ordering::Relaxed));
        Some((head, lane.frames[place].get().cast_const().cast()))
    }

    /// Gives the place of the frame that was peeked at back to the writer.
    pub(crate) fn take(&mut self) {
        self.taken += 1;
        // Release: pairs with the Acquire in `has_room`; the frame has been read.
        self.lanes.0[1 - self.end].taken.0.store(self.taken, Ordering::Release);
    }

    /// Tells the writer that receives are posted for `frames` frames more than were taken; returns
    /// whether that is news.
    pub(crate) fn grant(&mut self, frames: u64) -> bool {
        let granted = self.taken + frames;
        let is_news = granted != self.granted;
        if is_news {
            self.granted = granted;
            // Relaxed: see the module's memory ordering.
            self.lanes.0[1 - self.end].granted.0.store(granted, Ordering::Relaxed);
        }
        is_news
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.grant(0);
        // The other end may have done it; or it dies, and the file stays in the job's directory.
        _ = fs::remove_file(&self.path);
    }
}

fn place(number: u64) -> usize {
    usize::try_from(number % PLACES as u64).expect("a lane has few places")
}
