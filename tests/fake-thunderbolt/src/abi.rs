//! The functions of `verbs.h`, as a program finds them in this library.
//!
//! What a program holds is a pointer to the start of a [`Handle`]. Each function does as the header
//! says, and may rely on what the header asks of its caller: that its pointers come from here and
//! have not been destroyed. The `SAFETY` comments call that *the contract*.

mod completion;
mod device;
mod memory;
mod queue_pair;

use std::sync::Arc;

use pangea_rdma::verbs::sys::{ibv_comp_channel, ibv_context, ibv_cq, ibv_mr, ibv_pd, ibv_qp};

use crate::{
    completion::{Channel, CompletionQueue},
    context::Context,
    errno::{Errno, Result},
    memory::{Domain, Region},
    queue_pair::QueuePair,
};

/// An object of the header, and what it stands for.
#[derive(Debug)]
#[repr(C)]
struct Handle<A, T> {
    // First: the program knows the handle by this.
    abi: A,
    inner: Arc<T>,
}

type ContextHandle = Handle<ibv_context, Context>;
type DomainHandle = Handle<ibv_pd, Domain>;
type RegionHandle = Handle<ibv_mr, Region>;
type ChannelHandle = Handle<ibv_comp_channel, Channel>;
type QueueHandle = Handle<ibv_cq, CompletionQueue>;
type PairHandle = Handle<ibv_qp, QueuePair>;

impl<A, T> Handle<A, T> {
    /// Gives the object to the program.
    fn give(abi: A, inner: Arc<T>) -> *mut A {
        Box::into_raw(Box::new(Self { abi, inner })).cast()
    }

    /// What a pointer of the program's stands for.
    ///
    /// # Safety
    ///
    /// It comes from `give` and has not been taken back for as long as `'a`.
    unsafe fn of<'a>(pointer: *mut A) -> &'a Self {
        // SAFETY: as the caller says; the object is at the start of its handle.
        unsafe { &*pointer.cast::<Self>() }
    }

    /// Takes the object back from the program.
    ///
    /// # Safety
    ///
    /// It comes from `give` and is used no more.
    unsafe fn take(pointer: *mut A) -> Arc<T> {
        // SAFETY: as the caller says; the object is at the start of its handle, which is a box.
        unsafe { Box::from_raw(pointer.cast::<Self>()) }.inner
    }

    /// Fails while others are made of this: with any verbs, and on Apple's worse (1.3, teardown).
    fn is_unused(&self) -> Result {
        if Arc::strong_count(&self.inner) == 1 { Ok(()) } else { Err(Errno(libc::EBUSY)) }
    }
}
