//! The cluster, as one of its nodes sees it.

use std::{
    fmt,
    ptr::NonNull,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Instant,
};

use pangea_alloc::Statistics;
use pangea_rdma::{NodeId, RemoteAddr, Way};

use crate::{
    Config, Error, GlobalPtr, GlobalVec, Placement, Portable, Publish, Result, element,
    handle::Handle, join, naming, progress::Shared, sync::Deadline,
};

/// A node's membership; left when the last clone, and the last handle of anything in it, is
/// dropped.
///
/// Dropping it waits for nobody. End a program with a [`barrier`](Self::barrier) where others may
/// still need this node's heap.
#[derive(Clone, Debug)]
pub struct Cluster {
    member: Arc<Member>,
}

/// A node, and the thread that answers its peers.
pub(crate) struct Member {
    pub(crate) shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Cluster {
    /// Joins the cluster that a launcher has invited this process to, and returns when all nodes
    /// have joined; without a launcher, a cluster of one.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] where a setting is out of its range, [`Error::TimedOut`] where a node does
    /// not come, [`Error::PeerLost`] where one dies.
    pub fn join(config: Config) -> Result<Self> {
        let (shared, backlog) = join::join(config)?;
        let shared = Arc::new(shared);
        let thread = thread::Builder::new().name("pangea progress".to_owned()).spawn({
            let shared = shared.clone();
            move || shared.run(backlog)
        });
        let thread = Some(thread.map_err(Error::os("starting a thread"))?);
        Ok(Self { member: Arc::new(Member { shared, thread }) })
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        self.member.shared.node()
    }

    /// The number of nodes.
    pub fn nodes(&self) -> u16 {
        self.member.shared.fabric.nodes()
    }

    /// Allocates `len` elements, all zero.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] where a heap has no room, [`Error::TooLarge`] where no address space
    /// has, [`Error::PeerLost`] where the node is gone.
    pub fn vec<T: Portable>(&self, len: usize, placement: Placement) -> Result<GlobalVec<T>> {
        Ok(GlobalVec::new(Handle::allocate(&self.member, len, placement)?))
    }

    /// Reads the value that `pointer` leads to.
    ///
    /// # Errors
    ///
    /// [`Error::PeerLost`] where its home is gone, [`Error::Protocol`] where there is no such
    /// place.
    ///
    /// # Safety
    ///
    /// A `T` lives there (`GlobalVec::pointer` of a vector that has not been dropped), and nobody
    /// has borrowed it by `slice_mut`.
    pub unsafe fn get<T: Portable>(&self, pointer: GlobalPtr<T>) -> Result<T> {
        let shared = &self.member.shared;
        if let Some(source) = self.far_place(pointer)? {
            return shared.load_far(source);
        }
        let place = self.place(pointer)?;
        // SAFETY: the place is inside a window, which is mapped while `self` lives.
        Ok(unsafe { element::load(place) })
    }

    /// Writes the value that `pointer` leads to.
    ///
    /// # Errors
    ///
    /// As for [`get`](Self::get).
    ///
    /// # Safety
    ///
    /// As for [`get`](Self::get); and it is not frozen.
    pub unsafe fn put<T: Portable>(&self, pointer: GlobalPtr<T>, value: T) -> Result {
        if let Some(target) = self.far_place(pointer)? {
            return self.member.shared.store_far(target, value);
        }
        let place = self.place(pointer)?;
        // SAFETY: the place is inside a window, which is mapped while `self` lives.
        unsafe { element::store(place, value) };
        Ok(())
    }

    /// Where a `T` would be, if the place is inside a heap, and aligned.
    fn place<T>(&self, pointer: GlobalPtr<T>) -> Result<NonNull<T>> {
        let shared = &self.member.shared;
        shared.check_present(pointer.home())?;
        let size = size_of::<T>() as u64;
        let place = shared.space.address(pointer.home(), pointer.offset(), size)?.cast::<T>();
        if !place.is_aligned() {
            return Err(Error::Protocol { reason: format!("{pointer:?} is not aligned") });
        }
        Ok(place)
    }

    /// Where a `T` would be, if that is on another host.
    fn far_place<T>(&self, pointer: GlobalPtr<T>) -> Result<Option<RemoteAddr>> {
        let shared = &self.member.shared;
        let (node, region, offset) = (pointer.home(), shared.heap_region, pointer.offset());
        if !shared.space.is_far(node) {
            return Ok(None);
        }
        self.place(pointer)?;
        Ok(Some(RemoteAddr { node, region, offset }))
    }

    /// Makes `handle` known to all nodes under `name`; it stays so while the cluster lives, and so
    /// does its memory.
    ///
    /// # Errors
    ///
    /// [`Error::NameTaken`] where something else has the name, [`Error::Config`] where it is empty
    /// or longer than 255 bytes, or its keeper has too many, [`Error::PeerLost`] where the node
    /// that keeps it is gone, or the home of what `slice_mut` has written.
    pub fn publish(&self, name: &str, handle: &impl Publish) -> Result {
        // While nobody else knows of it: what is brought home later would be written over what
        // others have written by then.
        handle.allocation().bring_home()?;
        handle.allocation().publish();
        let result = naming::publish(&self.member.shared, name, handle.to_wire());
        if let Err(Error::NameTaken { .. } | Error::Config { .. } | Error::TooLarge { .. }) = result
        {
            handle.allocation().take_back();
        }
        result
    }

    /// What is published under `name`, once it is.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] where nothing is published in time, [`Error::Config`] where the name is
    /// empty or longer than 255 bytes, or this node looks up too many at a time,
    /// [`Error::TypeMismatch`] where it is of another type, [`Error::LayoutMismatch`] where the
    /// program that published it has another idea of that type, [`Error::PeerLost`] where the node
    /// that keeps the name is gone, and where nothing is published under it when a node dies or all
    /// others have left.
    pub fn lookup<H: Publish>(&self, name: &str) -> Result<H> {
        let wire = naming::look_up(&self.member.shared, name)?;
        H::from_wire(&self.member, name, wire)
    }

    /// Waits until every node has called this as often as this one: what any of them wrote before
    /// is seen by all of them after. One that failed can be tried again.
    ///
    /// # Errors
    ///
    /// [`Error::PeerLost`] where a node is gone, [`Error::TimedOut`] where one does not come in
    /// time ([`Config::timeout`]).
    pub fn barrier(&self) -> Result {
        let shared = &self.member.shared;
        let deadline = Deadline::After(shared.config.timeout);
        shared.barrier.wait(&*shared.fabric, &mut || shared.take_in(), deadline)
    }

    /// As [`barrier`](Self::barrier), with a deadline of its own.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn barrier_until(&self, deadline: Instant) -> Result {
        let shared = &self.member.shared;
        let deadline = Deadline::At(deadline);
        shared.barrier.wait(&*shared.fabric, &mut || shared.take_in(), deadline)
    }

    /// Whether `node` has died or left.
    pub fn is_lost(&self, node: NodeId) -> bool {
        self.member.shared.fabric.is_lost(node)
    }

    /// The loss of `node`, if it has died or left.
    ///
    /// # Errors
    ///
    /// [`Error::PeerLost`] where it has.
    pub fn check_present(&self, node: NodeId) -> Result {
        self.member.shared.check_present(node)
    }

    /// How this node reaches `node`, in words. There must be such a node.
    pub fn path(&self, node: NodeId) -> &Way {
        self.member.shared.fabric.way(node)
    }

    /// Bytes of other hosts' frozen vectors that were fetched and are kept here.
    pub fn fetched_bytes(&self) -> u64 {
        self.member.shared.cache.bytes()
    }

    /// How this node's heap is used.
    pub fn heap_statistics(&self) -> Statistics {
        self.member.shared.heap.statistics()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.barrier.say_farewell(&*shared.fabric, &mut || shared.take_in());
        shared.stop();
        if let Some(thread) = self.thread.take() {
            // It ends with the message that it is handling; a panic there was reported already.
            _ = thread.join();
        }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.shared.node(), self.shared.fabric.nodes())
    }
}
