//! Completion queues and channels.

use std::{
    ffi::{c_int, c_uint, c_void},
    ptr,
    sync::Arc,
};

use pangea_rdma::verbs::sys::{ibv_comp_channel, ibv_context, ibv_cq, ibv_wc};

use super::{ChannelHandle, ContextHandle, QueueHandle};
use crate::{
    completion::{Channel, CompletionQueue},
    errno::{Errno, number, pointer, set},
    limit,
};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_create_comp_channel(
    context: *mut ibv_context,
) -> *mut ibv_comp_channel {
    // SAFETY: the contract.
    let channel = Channel::new(&unsafe { ContextHandle::of(context) }.inner);
    pointer(channel.map(|channel| {
        let abi = ibv_comp_channel { context, fd: channel.descriptor(), refcnt: 0 };
        ChannelHandle::give(abi, channel)
    }))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: the contract.
    if let Err(errno) = unsafe { ChannelHandle::of(channel) }.is_unused() {
        return errno.0;
    }
    // SAFETY: the contract: it is used no more.
    drop(unsafe { ChannelHandle::take(channel) });
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    _vector: c_int,
) -> *mut ibv_cq {
    let capacity = usize::try_from(cqe).unwrap_or(0);
    if capacity == 0 || cqe > limit::COMPLETIONS {
        set(Errno(libc::EINVAL));
        return ptr::null_mut();
    }
    // SAFETY: the contract.
    let context_handle = unsafe { ContextHandle::of(context) };
    let told = (!channel.is_null()).then(|| {
        // SAFETY: the contract.
        unsafe { ChannelHandle::of(channel) }.inner.clone()
    });
    let queue = Arc::new(CompletionQueue::new(&context_handle.inner, capacity, told));
    let abi = ibv_cq { context, channel, cq_context, handle: 0, cqe };
    let given = QueueHandle::give(abi, queue.clone());
    queue.place(given);
    given
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_destroy_cq(queue: *mut ibv_cq) -> c_int {
    // SAFETY: the contract.
    let handle = unsafe { QueueHandle::of(queue) };
    // Any other library waits for the acknowledgements: for ever, if they do not come.
    let is_free = handle.is_unused().is_ok() && !handle.inner.owes();
    if !is_free {
        return libc::EBUSY;
    }
    handle.inner.disarm();
    // SAFETY: the contract: it is used no more.
    drop(unsafe { QueueHandle::take(queue) });
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    queue: *mut *mut ibv_cq,
    queue_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: the contract.
    let taken = unsafe { ChannelHandle::of(channel) }.inner.take();
    let found = match taken {
        Ok(found) => found,
        Err(errno) => {
            set(errno);
            return -1;
        }
    };
    // SAFETY: the contract: a queue is destroyed when no events are to be taken any more.
    let handle = unsafe { QueueHandle::of(found) };
    handle.inner.owe();
    // SAFETY: the contract: there is room for it.
    unsafe { *queue = found };
    // SAFETY: as above.
    unsafe { *queue_context = handle.abi.cq_context };
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_ack_cq_events(queue: *mut ibv_cq, events: c_uint) {
    // SAFETY: the contract.
    unsafe { QueueHandle::of(queue) }.inner.acknowledge(events);
}

pub(super) unsafe extern "C" fn req_notify_cq(queue: *mut ibv_cq, _solicited: c_int) -> c_int {
    // SAFETY: the contract.
    number(unsafe { QueueHandle::of(queue) }.inner.arm())
}

pub(super) unsafe extern "C" fn poll_cq(
    queue: *mut ibv_cq,
    count: c_int,
    completions: *mut ibv_wc,
) -> c_int {
    // SAFETY: the contract.
    let handle = unsafe { QueueHandle::of(queue) };
    let Ok(count) = usize::try_from(count) else { return -1 };
    let mut target = completions;
    let taken = handle.inner.poll(count, |completion| {
        // SAFETY: the contract: there is room for `count`, and no more are taken.
        unsafe { *target = completion };
        target = target.wrapping_add(1);
    });
    c_int::try_from(taken).expect("no more than asked for")
}
