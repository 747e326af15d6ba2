//! The sending side of a queue pair: messages are cut into frames.

use std::{collections::VecDeque, ffi::c_uint};

use pangea_rdma::verbs::sys::{IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR};

use super::Complete;
use crate::{
    errno::{Errno, Result},
    fault::Fates,
    limit::{self, FRAME_LEN},
    memory::{Span, SpanGuard},
    wire::{Head, Wire},
};

/// Sends that have frames which have not left.
#[derive(Debug)]
pub(super) struct SendQueue {
    posted: VecDeque<Send>,
    // Of all that are posted.
    frames: u32,
    depth: u32,
    fates: Fates,
}

/// A posted send.
#[derive(Debug)]
pub(super) struct Send {
    id: u64,
    // `None` where the memory must not be used.
    span: Option<Span>,
    len: usize,
    // Bytes that have left.
    sent: usize,
    is_signaled: bool,
}

impl Send {
    pub(super) fn new(id: u64, span: Option<Span>, len: usize, is_signaled: bool) -> Self {
        Self { id, span, len, sent: 0, is_signaled }
    }
}

impl SendQueue {
    pub(super) fn new(depth: u32, fates: Fates) -> Self {
        Self { posted: VecDeque::new(), frames: 0, depth, fates }
    }

    /// Adds a send; the queue's depth is in frames, not in messages.
    pub(super) fn post(&mut self, send: Send) -> Result {
        let frames = self.frames + limit::frames(send.len).max(1);
        if frames > self.depth {
            return Err(Errno(libc::ENOMEM));
        }
        self.frames = frames;
        self.posted.push_back(send);
        Ok(())
    }

    /// Sends what the peer has posted receives for; returns whether anything left.
    ///
    /// A send completes when its last frame has left, or was lost: that says nothing of the peer.
    pub(super) fn advance(&mut self, wire: &mut Wire, complete: Complete<'_>) -> bool {
        let mut has_moved = false;
        while let Some(mut send) = self.posted.pop_front() {
            let status = match send.span.as_ref().map(Span::lock) {
                // Nothing to cut into frames: nothing is sent, and the peer never hears of it.
                _ if send.len == 0 => Some(IBV_WC_SUCCESS),
                Some(Some(memory)) => {
                    let before = send.sent;
                    send.sent = self.send(before, &memory, wire);
                    has_moved |= send.sent > before;
                    (send.sent == send.len).then_some(IBV_WC_SUCCESS)
                }
                _ => Some(IBV_WC_LOC_PROT_ERR),
            };
            let Some(status) = status else {
                self.posted.push_front(send);
                break;
            };
            self.end(&send, status, complete);
        }
        has_moved
    }

    /// Ends all that is posted.
    pub(super) fn flush(&mut self, complete: Complete<'_>) {
        while let Some(send) = self.posted.pop_front() {
            self.end(&send, IBV_WC_WR_FLUSH_ERR, complete);
        }
    }

    /// Forgets all that is posted.
    pub(super) fn clear(&mut self) {
        self.posted.clear();
        self.frames = 0;
    }

    fn end(&mut self, send: &Send, status: c_uint, complete: Complete<'_>) {
        self.frames -= limit::frames(send.len).max(1);
        if send.is_signaled || status != IBV_WC_SUCCESS {
            complete(send.id, status, send.len);
        }
    }

    /// Sends frames of a message from byte `sent` on; returns how far it came.
    fn send(&mut self, mut sent: usize, memory: &SpanGuard<'_>, wire: &mut Wire) -> usize {
        let end = memory.len;
        while sent < end && wire.has_room() && !self.fates.is_stalled() {
            let len = FRAME_LEN.min(end - sent);
            let head = Head { len, is_first: sent == 0, is_last: sent + len == end };
            let fate = self.fates.next();
            if !fate.is_lost {
                put(memory, sent, head, fate.is_corrupted, wire);
                if fate.is_doubled && wire.has_room() {
                    put(memory, sent, head, fate.is_corrupted, wire);
                }
            }
            sent += len;
        }
        sent
    }
}

/// Puts the part of a message that begins at byte `sent` on the wire.
fn put(memory: &SpanGuard<'_>, sent: usize, head: Head, is_corrupted: bool, wire: &mut Wire) {
    wire.put(head, |frame| {
        // SAFETY: a frame has room for this part of the message.
        unsafe { memory.read(sent, frame, head.len) };
        if is_corrupted {
            // SAFETY: the frame has this byte, written above; nobody reads it yet.
            unsafe { *frame.wrapping_add(head.len / 2) ^= 1 };
        }
    });
}
