//! Getting pieces of frozen vectors from other hosts into their windows.

use std::{ops::Range, ptr::NonNull, time::Instant};

use pangea_rdma::{NodeId, Op, RemoteAddr};

use crate::{
    Error, Result,
    cache::{Place, Plan, Wanted},
    progress::Shared,
    transfer::Prefetch,
};

/// Bytes that one read fetches: many are under way at once, and arrive one after the other.
const READ_LEN: u64 = 1 << 20;

impl Shared {
    /// Fetches what is `wanted` and not there, and returns when all of it is.
    pub(crate) fn fetch(&self, wanted: &Wanted) -> Result {
        let Plan { fetch, awaited } = self.ask(wanted)?;
        let ops = self.reads(wanted.home, &fetch)?;
        // SAFETY: the pieces are this call's to fill: others see them when they are settled.
        let fetched = unsafe { self.transfer(&ops) };
        self.cache.settle(wanted.home, &fetch, fetched.is_ok());
        self.fabric.ring(self.node());
        let mut failed = if fetched.is_ok() { Vec::new() } else { fetch };
        for piece in awaited {
            let mut is_there = Some(false);
            while is_there == Some(false) {
                let patience = Instant::now() + self.config.timeout;
                self.drive(patience, &mut || {
                    is_there = self.cache.is_there(piece);
                    is_there != Some(false)
                });
            }
            if is_there.is_none() {
                failed.push(piece.place.1..piece.place.1 + 1);
            }
        }
        if failed.is_empty() {
            return Ok(());
        }
        if wanted.pins {
            self.cache.unpin_but(wanted, &failed);
        }
        fetched?;
        self.check_present(wanted.home)?;
        let reason = "a fetch by another thread failed; try again".to_owned();
        Err(Error::Protocol { reason })
    }

    /// Starts to fetch what is `wanted` and not there.
    pub(crate) fn fetch_ahead(&self, wanted: &Wanted) -> Result {
        let Plan { fetch, .. } = self.ask(wanted)?;
        if fetch.is_empty() {
            return Ok(());
        }
        let ops = self.reads(wanted.home, &fetch)?;
        let prefetch = Prefetch { home: wanted.home, runs: fetch };
        // SAFETY: windows stay mapped while this node is a member, and the pieces are the
        // prefetch's to fill: others see them when they are settled.
        unsafe { self.prefetch(&ops, prefetch) };
        Ok(())
    }

    fn ask(&self, wanted: &Wanted) -> Result<Plan> {
        self.check_present(wanted.home)?;
        let discard = |(home, offset): Place, len| {
            // What cannot be given back to the system is fetched over.
            _ = self.space.window(home).clear(offset, len);
        };
        self.cache.ask(wanted, &discard)
    }

    /// The operations that fetch `runs`, each to its place in the window.
    fn reads(&self, home: NodeId, runs: &[Range<u64>]) -> Result<Vec<Op>> {
        let mut ops = Vec::new();
        for run in runs {
            let mut offset = run.start;
            while offset < run.end {
                let len = READ_LEN.min(run.end - offset);
                let start = self.space.address(home, offset, len)?;
                let len = usize::try_from(len).expect("a length in a window is a usize");
                let target = NonNull::slice_from_raw_parts(start, len);
                let source = RemoteAddr { node: home, region: self.heap_region, offset };
                ops.push(Op::Read { source, target });
                offset += len as u64;
            }
        }
        Ok(ops)
    }
}
