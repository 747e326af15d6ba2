//! Where a device says what has ended, and how to sleep until it does.

use std::{
    ffi::{c_int, c_uint, c_void},
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    ptr::NonNull,
    sync::Arc,
};

use super::{
    device::{Context, made, none},
    library::Library,
    status::Status,
    sys,
};
use crate::{
    Error, Result,
    primitive::{AtomicU32, Ordering},
};

/// Completions taken at a time.
const BATCH: usize = 16;

/// Room for completions.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    ended: [sys::ibv_wc; BATCH],
    len: usize,
}

impl Batch {
    /// Completions in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing has ended.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The completion numbered `index`, in the order in which they came.
    #[inline]
    pub fn get(&self, index: usize) -> Ended {
        Ended::new(&self.ended[..self.len][index])
    }
}

/// How a work request ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// The poster's number for it.
    pub work: u64,
    /// Bytes received.
    pub len: u32,
    /// What the sender put beside the message; zero where that is nothing.
    pub immediate: u32,
    /// How it went.
    pub result: Result<(), Status>,
}

/// A queue of completions, which can wake a thread by a descriptor of its own, if its device can.
#[derive(Debug)]
pub struct CompletionQueue {
    raw: NonNull<sys::ibv_cq>,
    // Events taken from the channel; a queue can end only when all of them are acknowledged.
    events: AtomicU32,
    // Not every driver is known to have them.
    channel: Option<Channel>,
    context: Arc<Context>,
}

// SAFETY: the functions of the interface may be called from any thread, on any object.
unsafe impl Send for CompletionQueue {}
// SAFETY: as above, by several threads at once.
unsafe impl Sync for CompletionQueue {}

impl CompletionQueue {
    /// A queue of `depth` completions; more than that would break it, so that whoever posts must
    /// not have more in flight.
    pub fn new(context: &Arc<Context>, depth: u32) -> Result<Arc<Self>> {
        let channel = Channel::new(context).ok();
        let raw = channel.as_ref().and_then(|channel| create(context, depth, channel.raw.as_ptr()));
        let (raw, channel) = match raw {
            Some(raw) => (raw, channel),
            None => {
                let raw = create(context, depth, none()).ok_or_else(|| {
                    Library::refusal(context.name(), "creation of a completion queue")
                })?;
                (raw, None)
            }
        };
        let events = AtomicU32::new(0);
        Ok(Arc::new(Self { raw, events, channel, context: context.clone() }))
    }

    /// Takes what has ended, as much as fits `batch`.
    #[inline]
    pub fn poll(&self, batch: &mut Batch) -> Result {
        let poll = self.context.operation(|table| table.poll_cq, "poll_cq")?;
        let room = c_int::try_from(BATCH).expect("a batch is small");
        batch.len = 0;
        // SAFETY: the queue is alive, and `batch` has room for `room` completions.
        let count = unsafe { poll(self.raw.as_ptr(), room, batch.ended.as_mut_ptr()) };
        let count = usize::try_from(count)
            .map_err(|_| Library::refusal(self.context.name(), "poll of completions"))?;
        batch.len = count.min(BATCH);
        Ok(())
    }

    /// Lets the next completion make [`descriptor`](Self::descriptor) readable. Who arms the queue
    /// polls it once more before blocking: what ended before is announced by nobody.
    pub fn arm(&self) -> Result {
        let arm = self.context.operation(|table| table.req_notify_cq, "req_notify_cq")?;
        // SAFETY: the queue is alive.
        let returned = unsafe { arm(self.raw.as_ptr(), 0) };
        Library::check(returned, self.context.name(), "arming of a completion queue")
    }

    /// Becomes readable after [`arm`](Self::arm), and stays so until [`disarm`](Self::disarm);
    /// `None` where the device can only be polled.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let channel = self.channel.as_ref()?;
        // SAFETY: the channel's descriptor is open as long as the channel, which `self` holds.
        Some(unsafe { BorrowedFd::borrow_raw(channel.descriptor()) })
    }

    /// Takes what made the descriptor readable.
    pub fn disarm(&self) {
        let Some(channel) = &self.channel else { return };
        let take = self.context.library().functions.ibv_get_cq_event;
        loop {
            let (mut queue, mut about) = (none::<sys::ibv_cq>(), none::<c_void>());
            // SAFETY: the channel is alive, and both results live during the call; it does not
            // block, as the descriptor was set so.
            let returned = unsafe { take(channel.raw.as_ptr(), &raw mut queue, &raw mut about) };
            if returned != 0 {
                return;
            }
            // Relaxed: read when nobody else is left.
            self.events.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn raw(&self) -> *mut sys::ibv_cq {
        self.raw.as_ptr()
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        self.disarm();
        let functions = &self.context.library().functions;
        // Relaxed: nobody else is left.
        let events: c_uint = self.events.load(Ordering::Relaxed);
        if events > 0 {
            // SAFETY: the queue is alive, and `events` were taken from its channel, which is its
            // only.
            unsafe { (functions.ibv_ack_cq_events)(self.raw.as_ptr(), events) };
        }
        // SAFETY: queue pairs hold their queues, so that none is left.
        unsafe { (functions.ibv_destroy_cq)(self.raw.as_ptr()) };
    }
}

impl Ended {
    fn new(from: &sys::ibv_wc) -> Self {
        Self {
            work: from.wr_id,
            len: from.byte_len,
            immediate: match from.wc_flags & sys::IBV_WC_WITH_IMM {
                0 => 0,
                _ => u32::from_be(from.imm_data),
            },
            result: match from.status {
                sys::IBV_WC_SUCCESS => Ok(()),
                status => Err(Status(status)),
            },
        }
    }
}

/// A queue, with a channel or without; `None` where the device refuses.
fn create(
    context: &Arc<Context>,
    depth: u32,
    channel: *mut sys::ibv_comp_channel,
) -> Option<NonNull<sys::ibv_cq>> {
    let depth = c_int::try_from(depth).unwrap_or(c_int::MAX);
    let create = context.library().functions.ibv_create_cq;
    // SAFETY: the device and the channel are open, and outlive the queue, whose owner holds them.
    NonNull::new(unsafe { create(context.raw(), depth, none(), channel, 0) })
}

/// A descriptor that completions make readable.
#[derive(Debug)]
struct Channel {
    raw: NonNull<sys::ibv_comp_channel>,
    context: Arc<Context>,
}

impl Channel {
    fn new(context: &Arc<Context>) -> Result<Self> {
        // SAFETY: the device is open.
        let raw = unsafe { (context.library().functions.ibv_create_comp_channel)(context.raw()) };
        let raw = made(raw, context, "creation of a completion channel")?;
        let channel = Self { raw, context: context.clone() };
        // SAFETY: the descriptor is open; no memory is touched.
        let flags = unsafe { libc::fcntl(channel.descriptor(), libc::F_GETFL) };
        // SAFETY: as above.
        if unsafe { libc::fcntl(channel.descriptor(), libc::F_SETFL, flags | libc::O_NONBLOCK) }
            != 0
        {
            return Err(Error::last_os("fcntl of a completion channel"));
        }
        Ok(channel)
    }

    fn descriptor(&self) -> RawFd {
        // SAFETY: the channel lives as long as `self`, and the library does not change it.
        unsafe { self.raw.as_ref() }.fd.as_raw_fd()
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let destroy = self.context.library().functions.ibv_destroy_comp_channel;
        // SAFETY: the queue that used the channel is gone: it is dropped before its fields.
        unsafe { destroy(self.raw.as_ptr()) };
    }
}
