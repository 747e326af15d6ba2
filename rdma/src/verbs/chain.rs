//! Requests that are posted together, with one doorbell.

use std::ptr;

use super::{queue_pair::QueuePair, sys};
use crate::Result;

/// Requests in the longest chain.
const LEN_MAX: usize = 16;

/// What a request does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    Read { address: u64, key: u32 },
    Write { address: u64, key: u32 },
    FetchAdd { address: u64, key: u32, addend: u64 },
    CompareSwap { address: u64, key: u32, expected: u64, desired: u64 },
    Send { immediate: Option<u32> },
}

/// Requests that will be posted together.
#[derive(Debug)]
pub(super) struct Chain {
    requests: Box<[sys::ibv_send_wr; LEN_MAX]>,
    elements: Box<[sys::ibv_sge; LEN_MAX]>,
    len: usize,
}

// SAFETY: the pointers of the requests lead from one part of the chain to another, and are written
// anew before they are used.
unsafe impl Send for Chain {}

impl Chain {
    pub(super) fn new() -> Self {
        // SAFETY: all zero is a valid request: null pointers and numbers.
        let request: sys::ibv_send_wr = unsafe { std::mem::zeroed() };
        Self { requests: Box::new([request; LEN_MAX]), elements: Box::default(), len: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == LEN_MAX
    }

    /// Adds a request numbered `work`, which moves `element`, or nothing where that is empty.
    #[inline]
    pub(super) fn push(&mut self, work: u64, verb: Verb, element: sys::ibv_sge, flags: u32) {
        self.elements[self.len] = element;
        let request = &mut self.requests[self.len];
        request.wr_id = work;
        request.num_sge = i32::from(element.length > 0);
        request.send_flags = flags;
        (request.opcode, request.wr) = verb.spelled();
        if let Verb::Send { immediate: Some(immediate) } = verb {
            request.imm_data = immediate.to_be();
        }
        self.len += 1;
    }

    /// Makes the last request say when it has ended.
    pub(super) fn signal_last(&mut self) {
        let last = self.len.checked_sub(1).expect("a chain with a request");
        self.requests[last].send_flags |= sys::IBV_SEND_SIGNALED;
    }

    /// Posts the requests, and forgets them.
    ///
    /// # Safety
    ///
    /// As for [`QueuePair::post_sends`], of every request.
    pub(super) unsafe fn post(&mut self, pair: &QueuePair) -> Result {
        let requests = &mut self.requests[..self.len];
        self.len = 0;
        let mut next = ptr::null_mut();
        for (request, element) in requests.iter_mut().zip(&mut self.elements[..]).rev() {
            request.sg_list = element;
            request.next = next;
            next = request;
        }
        // SAFETY: the chain is linked, and lives during the call; the caller vouches for the rest.
        unsafe { pair.post_sends(next) }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }
}

impl Verb {
    /// The operation code, and where it goes.
    fn spelled(self) -> (u32, sys::ibv_send_wr_target) {
        let at = |remote_addr, rkey| sys::ibv_send_wr_target {
            rdma: sys::ibv_send_wr_rdma { remote_addr, rkey },
        };
        let word = |remote_addr, rkey, compare_add, swap| sys::ibv_send_wr_target {
            atomic: sys::ibv_send_wr_atomic { remote_addr, compare_add, swap, rkey },
        };
        match self {
            Self::Read { address, key } => (sys::IBV_WR_RDMA_READ, at(address, key)),
            Self::Write { address, key } => (sys::IBV_WR_RDMA_WRITE, at(address, key)),
            Self::FetchAdd { address, key, addend } => {
                (sys::IBV_WR_ATOMIC_FETCH_AND_ADD, word(address, key, addend, 0))
            }
            Self::CompareSwap { address, key, expected, desired } => {
                (sys::IBV_WR_ATOMIC_CMP_AND_SWP, word(address, key, expected, desired))
            }
            Self::Send { immediate: None } => (sys::IBV_WR_SEND, at(0, 0)),
            Self::Send { immediate: Some(_) } => (sys::IBV_WR_SEND_WITH_IMM, at(0, 0)),
        }
    }
}
