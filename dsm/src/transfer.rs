//! Operations on the memory of other hosts' nodes: started, awaited, and told apart by a token.

use std::{
    mem,
    ops::Range,
    process,
    ptr::NonNull,
    slice,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use pangea_rdma::{Fabric, NodeId, Op, RemoteAddr, Request, Token};

use crate::{
    Portable, Result,
    element::{self, bytes_of, bytes_of_mut},
    progress::Shared,
};

/// Bit of a token that marks a transfer; the others are letters.
const TRANSFER: u64 = 1 << 63;
/// The token of what nobody waits for.
const UNAWAITED: Token = Token(u64::MAX);

/// The transfers that are under way.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    places: Vec<Transfer>,
    free: Vec<usize>,
}

/// Operations that end together.
#[derive(Debug, Default)]
struct Transfer {
    // Operations that have not ended.
    left: usize,
    // What the last brought.
    value: u64,
    // How the first to fail did.
    error: Option<pangea_rdma::Error>,
    // What they fetch, where nobody waits for it.
    prefetch: Option<Prefetch>,
}

/// What is fetched ahead of its use.
#[derive(Debug)]
pub(crate) struct Prefetch {
    pub(crate) home: NodeId,
    pub(crate) runs: Vec<Range<u64>>,
}

/// What a completion was.
#[derive(Debug)]
pub(crate) enum Completed {
    /// None of a transfer.
    Other,
    /// One of a transfer.
    Transfer,
    /// The last of what was fetched ahead, and whether all of it is there.
    Prefetch(Prefetch, bool),
}

impl Transfers {
    /// A name for `count` operations.
    fn begin(&self, count: usize, prefetch: Option<Prefetch>) -> Token {
        let Table { places, free } = &mut *self.lock();
        let index = free.pop().unwrap_or_else(|| {
            places.push(Transfer::default());
            places.len() - 1
        });
        places[index] = Transfer { left: count, value: 0, error: None, prefetch };
        Token(TRANSFER | index as u64)
    }

    /// Takes in a completion.
    pub(crate) fn complete(&self, token: Token, result: pangea_rdma::Result<u64>) -> Completed {
        if token.0 & TRANSFER == 0 {
            return Completed::Other;
        }
        let Table { places, free } = &mut *self.lock();
        let Some(transfer) = places.get_mut(index(token)) else { return Completed::Transfer };
        transfer.left = transfer.left.saturating_sub(1);
        match result {
            Ok(value) => transfer.value = value,
            Err(error) => _ = transfer.error.get_or_insert(error),
        }
        match transfer.prefetch.take_if(|_| transfer.left == 0) {
            Some(prefetch) => {
                free.push(index(token));
                Completed::Prefetch(prefetch, transfer.error.is_none())
            }
            None => Completed::Transfer,
        }
    }

    fn has_ended(&self, token: Token) -> bool {
        self.lock().places[index(token)].left == 0
    }

    /// How a transfer that has ended did.
    fn end(&self, token: Token) -> Result<u64> {
        let Table { places, free } = &mut *self.lock();
        let transfer = mem::take(&mut places[index(token)]);
        free.push(index(token));
        transfer.error.map_or(Ok(transfer.value), |error| Err(error.into()))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn index(token: Token) -> usize {
    usize::try_from(token.0 & !TRANSFER).expect("an index")
}

/// Operations on borrowed memory are under way. To unwind now would end the borrow while the fabric
/// still reads and writes there; who drops this ends the process instead.
struct UnderWay;

impl Drop for UnderWay {
    fn drop(&mut self) {
        process::abort();
    }
}

/// Polls and waits until `ready`, or until `deadline`; whether it is ready. What comes meanwhile
/// goes to `take`.
pub(crate) fn drive(
    fabric: &dyn Fabric,
    take: &mut dyn FnMut(),
    deadline: Instant,
    ready: &mut dyn FnMut() -> bool,
) -> bool {
    loop {
        if fabric.has_arrived() {
            take();
        }
        let has_come = fabric.wait_until(deadline, &mut || ready() || fabric.has_arrived());
        if ready() {
            return true;
        }
        if !has_come {
            return false;
        }
    }
}

/// Sets a word of a node of another host, and wakes who waits there; nothing is waited for.
pub(crate) fn signal(
    fabric: &dyn Fabric,
    take: &mut dyn FnMut(),
    target: RemoteAddr,
    value: u64,
) -> Result {
    let request = Request { token: UNAWAITED, op: Op::Signal { target, value } };
    // SAFETY: a signal names no memory of this process.
    while unsafe { fabric.post(&[request]) }? == 0 {
        // Something ends when there is room, or when its node is lost.
        take();
        thread::yield_now();
    }
    Ok(())
}

impl Shared {
    /// Does `ops` and waits until all have ended; returns what the last brought.
    ///
    /// It waits for as long as their node is there, as the memory is the fabric's until then: one
    /// that is silent is lost, and ends them.
    ///
    /// # Safety
    ///
    /// The local memory that they name is valid during the call, and touched by nobody else.
    pub(crate) unsafe fn transfer(&self, ops: &[Op]) -> Result<u64> {
        let token = self.transfers.begin(ops.len(), None);
        let under_way = UnderWay;
        for &op in ops {
            // SAFETY: the caller vouches for the memory until this returns, which is after every
            // operation has ended; it does not unwind before (`UnderWay`).
            unsafe { self.post(Request { token, op }) };
        }
        while !self.transfers.has_ended(token) {
            let patience = Instant::now() + self.config.timeout;
            self.drive(patience, &mut || self.transfers.has_ended(token));
        }
        mem::forget(under_way);
        self.transfers.end(token)
    }

    /// Starts to fetch ahead what `ops` read; it is settled when all have ended.
    ///
    /// # Safety
    ///
    /// The memory that they read to stays mapped while this node is a member, and nobody touches it
    /// until it is settled.
    pub(crate) unsafe fn prefetch(&self, ops: &[Op], prefetch: Prefetch) {
        let token = self.transfers.begin(ops.len(), Some(prefetch));
        for &op in ops {
            // SAFETY: the caller vouches for the memory.
            unsafe { self.post(Request { token, op }) };
        }
    }

    /// Starts a request; waits while queues are full.
    ///
    /// # Safety
    ///
    /// As for [`Fabric::post`].
    unsafe fn post(&self, request: Request) {
        loop {
            // SAFETY: passed on to the caller.
            match unsafe { self.fabric.post(&[request]) } {
                Ok(0) => {}
                Ok(_) => return,
                Err(error) => {
                    self.transfers.complete(request.token, Err(error));
                    return;
                }
            }
            // Something ends when there is room, or when its node is lost.
            let patience = Instant::now() + self.config.timeout;
            self.take_in();
            self.fabric.wait_until(patience, &mut || self.fabric.has_arrived());
        }
    }

    /// Waits as [`drive`], and handles what comes.
    pub(crate) fn drive(&self, deadline: Instant, ready: &mut dyn FnMut() -> bool) -> bool {
        drive(&*self.fabric, &mut || self.take_in(), deadline, ready)
    }

    /// Copies bytes of a node of another host to `target`.
    pub(crate) fn read_far(&self, source: RemoteAddr, target: &mut [u8]) -> Result {
        let op = Op::Read { source, target: NonNull::from(target) };
        // SAFETY: `target` is borrowed for the call, exclusively.
        unsafe { self.transfer(&[op]) }.map(drop)
    }

    /// Copies `source` to a node of another host.
    pub(crate) fn write_far(&self, source: &[u8], target: RemoteAddr) -> Result {
        let op = Op::Write { source: NonNull::from(source), target };
        // SAFETY: `source` is borrowed for the call, and only read.
        unsafe { self.transfer(&[op]) }.map(drop)
    }

    /// Does an atomic operation on a word of a node of another host; returns the word before.
    pub(crate) fn atomic_far(&self, op: Op) -> Result<u64> {
        let is_atomic =
            matches!(op, Op::FetchAdd { .. } | Op::Swap { .. } | Op::CompareSwap { .. });
        assert!(is_atomic, "{op:?} is an atomic operation");
        // SAFETY: an atomic operation names no memory of this process.
        unsafe { self.transfer(&[op]) }
    }

    /// The value at a place on another host.
    pub(crate) fn load_far<T: Portable>(&self, source: RemoteAddr) -> Result<T> {
        let mut value = element::zeroed::<T>();
        self.read_far(source, bytes_of_mut(slice::from_mut(&mut value)))?;
        Ok(value)
    }

    /// Writes `value` to a place on another host.
    pub(crate) fn store_far<T: Portable>(&self, target: RemoteAddr, value: T) -> Result {
        self.write_far(bytes_of(slice::from_ref(&value)), target)
    }
}

#[cfg(test)]
mod tests {
    use std::{env, os::unix::process::ExitStatusExt, process::Command, time::Duration};

    use super::*;
    use crate::{Config, join};

    /// Set in the process that is to abort.
    const ABORTS: &str = "ABORT_IN_TRANSFER";

    #[test]
    fn a_panic_while_operations_are_under_way_ends_the_process() {
        if env::var_os(ABORTS).is_some() {
            return panic_in_transfer();
        }
        let name = "transfer::tests::a_panic_while_operations_are_under_way_ends_the_process";
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", name])
            .env(ABORTS, "1")
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), Some(libc::SIGABRT), "{child:?}");
    }

    fn panic_in_transfer() {
        let (mut shared, _) = join::join(Config::default()).unwrap();
        // There is no such point in time: it is a panic to compute it, once all is posted.
        shared.config.timeout = Duration::MAX;
        let source = RemoteAddr { node: shared.node(), region: shared.heap_region, offset: 0 };
        let mut target = [0; 8];
        _ = shared.read_far(source, &mut target);
    }
}
