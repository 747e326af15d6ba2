//! Queue pairs and what is posted to them.

use std::{ffi::c_int, ptr};

use pangea_rdma::verbs::sys::{
    ibv_cq, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_init_attr, ibv_recv_wr, ibv_send_wr, ibv_sge,
};

use super::{DomainHandle, PairHandle, QueueHandle};
use crate::{
    errno::{Errno, Result, number, pointer},
    queue_pair::QueuePair,
};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_create_qp(
    pd: *mut ibv_pd,
    asked: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    // SAFETY: the contract.
    let domain = unsafe { DomainHandle::of(pd) };
    // SAFETY: the contract.
    let asked = unsafe { &*asked };
    let queue = |queue: *mut ibv_cq| {
        // SAFETY: the contract: both queues are given.
        unsafe { QueueHandle::of(queue) }.inner.clone()
    };
    let made = QueuePair::new(&domain.inner, asked, queue(asked.send_cq), queue(asked.recv_cq));
    pointer(made.map(|pair| {
        let abi = ibv_qp {
            context: domain.abi.context,
            qp_context: asked.qp_context,
            pd,
            send_cq: asked.send_cq,
            recv_cq: asked.recv_cq,
            srq: ptr::null_mut(),
            handle: 0,
            qp_num: pair.number,
            state: 0,
            qp_type: asked.qp_type,
        };
        PairHandle::give(abi, pair)
    }))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_destroy_qp(pair: *mut ibv_qp) -> c_int {
    // SAFETY: the contract: it is used no more.
    unsafe { PairHandle::take(pair) }.destroy();
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_modify_qp(
    pair: *mut ibv_qp,
    asked: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    // SAFETY: the contract.
    let handle = unsafe { PairHandle::of(pair) };
    // SAFETY: the contract.
    let asked = unsafe { &*asked };
    let modified = handle.inner.modify(asked, mask);
    if modified.is_ok() {
        // SAFETY: the contract: the program reads the state after this call, not during it.
        unsafe { (*pair).state = asked.qp_state };
    }
    number(modified)
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_qp(
    pair: *mut ibv_qp,
    attributes: *mut ibv_qp_attr,
    _mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: the contract.
    let handle = unsafe { PairHandle::of(pair) };
    // SAFETY: the contract: there is room for it.
    unsafe { *attributes = handle.inner.query() };
    let ibv_qp { qp_context, send_cq, recv_cq, srq, qp_type, .. } = handle.abi;
    let cap = handle.inner.cap;
    let sq_sig_all = 0;
    let made = ibv_qp_init_attr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all };
    // SAFETY: as above.
    unsafe { *init = made };
    0
}

/// Declares a function that posts a list of work requests, up to the first that is refused.
macro_rules! post {
    ($name:ident, $request:ty, $method:ident) => {
        pub(super) unsafe extern "C" fn $name(
            pair: *mut ibv_qp,
            first: *mut $request,
            bad: *mut *mut $request,
        ) -> c_int {
            // SAFETY: the contract.
            let handle = unsafe { PairHandle::of(pair) };
            let mut next = first;
            // SAFETY: the contract: each request names the next, or none.
            while let Some(request) = unsafe { next.as_ref() } {
                // SAFETY: the contract: as many pieces as the request says.
                let piece = unsafe { piece(request.sg_list, request.num_sge) };
                if let Err(errno) = piece.and_then(|piece| handle.inner.$method(request, piece)) {
                    // SAFETY: the contract: there is room for it.
                    unsafe { *bad = next };
                    return errno.0;
                }
                next = request.next;
            }
            0
        }
    };
}

post!(post_send, ibv_send_wr, post_send);
post!(post_recv, ibv_recv_wr, post_receive);

/// The one piece of memory of a request; more are refused (`apple-rdma.md` 1.2, SGE).
///
/// # Safety
///
/// `list` has `count` pieces.
unsafe fn piece(list: *mut ibv_sge, count: c_int) -> Result<Option<ibv_sge>> {
    match count {
        0 => Ok(None),
        // SAFETY: as the caller says.
        1 => Ok(Some(unsafe { *list })),
        _ => Err(Errno(libc::EINVAL)),
    }
}
