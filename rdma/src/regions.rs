//! The memories of all nodes that are mapped here, and what the processor does to them.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use crate::{
    Error, Mapping, NodeId, Op, Region, RemoteAddr, Result, copy_in, copy_out, primitive::Ordering,
};

/// Which region of which node is mapped where.
#[derive(Debug)]
pub(crate) struct Regions {
    table: RwLock<Table>,
}

#[derive(Debug)]
struct Table {
    last: Region,
    mapped: HashMap<(NodeId, Region), Arc<Mapping>>,
}

impl Regions {
    /// No region yet; the first gets the number after `last`.
    pub(crate) fn new(last: Region) -> Self {
        Self { table: RwLock::new(Table { last, mapped: HashMap::new() }) }
    }

    /// Gives `memory` of `node`, this one, the next number, once `announce` has told the others.
    pub(crate) fn register(
        &self,
        node: NodeId,
        memory: Arc<Mapping>,
        announce: &dyn Fn(Region) -> Result,
    ) -> Result<Region> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let region = Region(table.last.0 + 1);
        announce(region)?;
        table.last = region;
        table.mapped.insert((node, region), memory);
        Ok(region)
    }

    /// Takes note that a region of `peer` is mapped as `memory`.
    pub(crate) fn attach(&self, peer: NodeId, region: Region, memory: Arc<Mapping>) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.mapped.insert((peer, region), memory);
    }

    pub(crate) fn mapping(&self, at: RemoteAddr) -> Result<Arc<Mapping>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let found = table.mapped.get(&(at.node, at.region)).cloned();
        found.ok_or(Error::UnknownRegion { node: at.node, region: at.region.0 })
    }

    /// Reads, writes and atomics, by the processor.
    ///
    /// # Safety
    ///
    /// As for [`Fabric::post`].
    // Apart, so that a message does not pay for the registers and the stack that this needs.
    #[inline(never)]
    pub(crate) unsafe fn access(&self, op: &Op) -> Result<u64> {
        match *op {
            Op::Read { source, mut target } => {
                let start = self.mapping(source)?;
                let start = start.range(source.offset, target.len() as u64)?;
                // SAFETY: the caller gives `target` to the fabric until the request has completed.
                let target = unsafe { target.as_mut() };
                // SAFETY: `start` is that many bytes of a mapping (checked), which is held by
                // `regions`.
                unsafe { copy_out(start, target) };
                Ok(0)
            }
            Op::Write { source, target } => {
                let start = self.mapping(target)?;
                let start = start.range(target.offset, source.len() as u64)?;
                // SAFETY: the caller gives `source` to the fabric until the request has completed.
                let source = unsafe { source.as_ref() };
                // SAFETY: `start` is that many bytes of a mapping (checked), which is held by
                // `regions`.
                unsafe { copy_in(source, start) };
                Ok(0)
            }
            // SeqCst, all three: one order for all atomics of a word, and for those of several.
            Op::FetchAdd { target, addend } => {
                let memory = self.mapping(target)?;
                Ok(memory.word(target.offset)?.fetch_add(addend, Ordering::SeqCst))
            }
            Op::Swap { target, value } => {
                let memory = self.mapping(target)?;
                Ok(memory.word(target.offset)?.swap(value, Ordering::SeqCst))
            }
            Op::CompareSwap { target, expected, desired } => {
                let memory = self.mapping(target)?;
                let word = memory.word(target.offset)?;
                let order = Ordering::SeqCst;
                Ok(word.compare_exchange(expected, desired, order, order).unwrap_or_else(|now| now))
            }
            Op::Signal { target, value } => {
                // Release: pairs with the Acquire of who waits; what came before is visible to it.
                self.mapping(target)?.word(target.offset)?.store(value, Ordering::Release);
                Ok(0)
            }
            Op::Send { .. } => unreachable!("`carry_out` sends messages"),
        }
    }
}
