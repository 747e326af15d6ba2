//! What this process has of memory whose home is on another host: what slices hold of it, and what
//! was written here and is yet to be brought home.

use std::{
    collections::BTreeMap,
    ops::Range,
    ptr::NonNull,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use pangea_rdma::{NodeId, Op, RemoteAddr};

use super::Allocation;
use crate::{Result, cache::Wanted};

/// The state of an allocation's memory on other hosts.
#[derive(Debug, Default)]
pub(super) struct Far {
    state: Mutex<State>,
    // Something is taken out; to look without the lock.
    is_out: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    // What slices hold: ends by starts, none overlapping another.
    held: BTreeMap<(NodeId, u64), u64>,
    // What was written here.
    out: Option<(NodeId, Range<u64>)>,
}

impl Allocation {
    /// Fetches `pieces` of it at `home`, unless they are held, and holds them.
    pub(crate) fn hold(&self, home: NodeId, pieces: Range<u64>) -> Result {
        let mut state = self.far.lock();
        for gap in state.gaps(home, &pieces) {
            // The lock is held meanwhile, so that what is held is held once. Nobody needs it who
            // has what he wants.
            self.member.shared.fetch(&Wanted { home, bytes: gap.clone(), pins: true })?;
            state.held.insert((home, gap.start), gap.end);
        }
        Ok(())
    }

    /// Starts to fetch `pieces` of it at `home`.
    pub(crate) fn fetch_ahead(&self, home: NodeId, pieces: Range<u64>) -> Result {
        let gaps = self.far.lock().gaps(home, &pieces);
        gaps.into_iter().try_for_each(|bytes| {
            self.member.shared.fetch_ahead(&Wanted { home, bytes, pins: false })
        })
    }

    /// Lets go of all that is held. Nothing of it may be borrowed.
    pub(crate) fn release(&self) {
        let held = std::mem::take(&mut self.far.lock().held);
        for ((home, start), end) in held {
            self.member.shared.cache.unpin(home, &(start..end));
        }
    }

    /// Copies `bytes` at `home` to the window, where they are written from now on, until they are
    /// brought home.
    pub(crate) fn take_out(&self, home: NodeId, bytes: Range<u64>) -> Result {
        self.bring_home()?;
        let shared = &self.member.shared;
        let len = bytes.end - bytes.start;
        let start = shared.space.address(home, bytes.start, len)?;
        let len = usize::try_from(len).expect("a length in a window is a usize");
        let target = NonNull::slice_from_raw_parts(start, len);
        let source = RemoteAddr { node: home, region: shared.heap_region, offset: bytes.start };
        // SAFETY: the target is inside a window, which is mapped while the member is; nobody else
        // touches it, as the caller has the only handle of the vector, mutably.
        unsafe { shared.transfer(&[Op::Read { source, target }]) }?;
        self.far.lock().out = Some((home, bytes));
        // Relaxed: who takes out has the only handle.
        self.far.is_out.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Brings home what was taken out; nothing of it is borrowed any more, as whoever calls this
    /// uses the handle from which it was.
    #[inline]
    pub(crate) fn bring_home(&self) -> Result {
        // Relaxed: the handle was handed over with what it has taken out.
        if self.far.is_out.load(Ordering::Relaxed) { self.bring_out_home() } else { Ok(()) }
    }

    #[cold]
    fn bring_out_home(&self) -> Result {
        let mut state = self.far.lock();
        let Some((home, bytes)) = state.out.clone() else { return Ok(()) };
        let shared = &self.member.shared;
        let len = bytes.end - bytes.start;
        let start = shared.space.address(home, bytes.start, len)?;
        let len = usize::try_from(len).expect("a length in a window is a usize");
        let source = NonNull::slice_from_raw_parts(start, len);
        let target = RemoteAddr { node: home, region: shared.heap_region, offset: bytes.start };
        // SAFETY: the source is inside a window, which is mapped while the member is; nobody writes
        // it, as `slice_mut` borrows the handle that is used here.
        unsafe { shared.transfer(&[Op::Write { source, target }]) }?;
        state.out = None;
        // Relaxed: as in `take_out`.
        self.far.is_out.store(false, Ordering::Relaxed);
        Ok(())
    }
}

impl Far {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What of `bytes` at `home` is not held.
    fn gaps(&self, home: NodeId, bytes: &Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = bytes.start;
        let before = self.held.range(..=(home, at)).next_back();
        if let Some((&(owner, _), &end)) = before
            && owner == home
        {
            at = at.max(end);
        }
        for (&(_, start), &end) in self.held.range((home, at)..(home, bytes.end.max(at))) {
            if start > at {
                gaps.push(at..start);
            }
            at = at.max(end);
        }
        if at < bytes.end {
            gaps.push(at..bytes.end);
        }
        gaps
    }
}
