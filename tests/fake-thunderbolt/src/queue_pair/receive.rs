//! The receiving side of a queue pair: frames fill what is posted, in order.

use std::{collections::VecDeque, ffi::c_uint};

use pangea_rdma::verbs::sys::{
    IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR,
};

use super::Complete;
use crate::{
    limit::{self, FRAME_LEN},
    memory::Span,
    wire::{Head, Wire},
};

/// What is posted, and not filled.
#[derive(Debug, Default)]
pub(super) struct ReceiveQueue {
    posted: VecDeque<Receive>,
    // Frames that fit what is posted.
    room: u32,
}

/// A posted receive.
#[derive(Debug)]
pub(super) struct Receive {
    id: u64,
    // `None` where the memory must not be used.
    span: Option<Span>,
    len: usize,
    // Frames that it takes, and that it has taken.
    frames: u32,
    taken: u32,
    // Bytes that came.
    received: usize,
    // Posted beyond what the provider has room for.
    is_spoiled: bool,
}

impl Receive {
    pub(super) fn new(id: u64, span: Option<Span>, len: usize) -> Self {
        let frames = limit::frames(len).max(1);
        Self { id, span, len, frames, taken: 0, received: 0, is_spoiled: false }
    }

    /// Takes a frame in, as far as there is room for it.
    ///
    /// # Safety
    ///
    /// `bytes` are as many as `head` says.
    unsafe fn fill(&mut self, head: Head, bytes: *const u8) {
        let offset = self.taken as usize * FRAME_LEN;
        let len = head.len.min(self.len.saturating_sub(offset));
        self.taken += 1;
        self.received += head.len;
        let Some(memory) = self.span.as_ref().and_then(Span::lock) else {
            self.span = None;
            return;
        };
        // SAFETY: the caller's bytes are no fewer.
        unsafe { memory.write(offset, bytes, len) };
        if self.is_spoiled && len > 0 {
            // SAFETY: one byte of a local.
            unsafe { memory.write(offset, &raw const SPOILED, 1) };
        }
    }

    /// How it ends, with the message's last frame or without.
    fn status(&self, is_whole: bool) -> c_uint {
        if self.span.is_none() {
            IBV_WC_LOC_PROT_ERR
        } else if is_whole && self.taken == self.frames && self.received <= self.len {
            IBV_WC_SUCCESS
        } else {
            IBV_WC_LOC_LEN_ERR
        }
    }
}

/// Stands at the start of each frame of a receive beyond the budget.
static SPOILED: u8 = 0xdb;

impl ReceiveQueue {
    /// Adds a receive, whether or not the provider has room for it.
    pub(super) fn post(&mut self, mut receive: Receive) {
        self.room = self.room.saturating_add(receive.frames);
        receive.is_spoiled = self.room > limit::FRAMES;
        self.posted.push_back(receive);
    }

    /// Takes what has come for what is posted; returns whether the peer may send more than before.
    pub(super) fn advance(&mut self, wire: &mut Wire, complete: Complete<'_>) -> bool {
        let mut has_moved = false;
        while let Some((head, bytes)) = wire.peek() {
            let Some(receive) = self.posted.front_mut() else { break };
            if head.is_first && receive.taken > 0 {
                // The last frames of the message before were lost.
                self.end(false, complete);
                continue;
            }
            // SAFETY: a frame on the wire is there until it is taken.
            unsafe { receive.fill(head, bytes) };
            let is_full = receive.taken == receive.frames;
            wire.take();
            self.room -= 1;
            has_moved = true;
            // A message that is longer goes on in the next receive.
            if head.is_last || is_full {
                self.end(head.is_last, complete);
            }
        }
        wire.grant(u64::from(self.room)) || has_moved
    }

    /// Ends all that is posted.
    pub(super) fn flush(&mut self, complete: Complete<'_>) {
        for receive in self.posted.drain(..) {
            complete(receive.id, IBV_WC_WR_FLUSH_ERR, 0);
        }
        self.room = 0;
    }

    /// Forgets all that is posted.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn end(&mut self, is_whole: bool, complete: Complete<'_>) {
        let receive = self.posted.pop_front().expect("a receive that ends was posted");
        self.room -= receive.frames - receive.taken;
        complete(receive.id, receive.status(is_whole), receive.received.min(receive.len));
    }
}
