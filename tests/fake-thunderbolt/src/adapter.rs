//! A port's adapter, as all processes of its host share it: what is in use of its few resources,
//! where its peer rings, and whether the cable is plugged in.

use std::{
    fs, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use pangea_rdma::wait::Doorbell;

use crate::{
    cabling::Port,
    errno::{Errno, Result},
    limit,
    shared::{Share, Shared},
};

/// The file of an adapter is named so, and after its port.
const FILE: &str = "adapter-";

/// What lies in the adapter's file.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Adapter {
    /// Rung by the other end when something has moved on the cable.
    pub(crate) doorbell: Doorbell,
    unplugged: AtomicU32,
    // Queue pairs made so far.
    made: AtomicU32,
    // By slot: the process that holds the resource, or zero.
    queue_pairs: [AtomicU32; limit::QUEUE_PAIRS],
    regions: [AtomicU32; limit::REGIONS],
    domains: [AtomicU32; limit::DOMAINS],
}

// SAFETY: all fields are atomics, and zero is a valid value of each.
unsafe impl Share for Adapter {}

/// A resource of which an adapter has few.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resource {
    QueuePair,
    Region,
    Domain,
}

impl Adapter {
    /// The adapter of `port`, of the processes that meet in `directory`.
    pub(crate) fn open(directory: &Path, port: Port) -> io::Result<Shared<Self>> {
        fs::create_dir_all(directory)?;
        Shared::open(&directory.join(format!("{FILE}{port}")))
    }

    /// Rings every doorbell of `directory`, for those to look again who sleep.
    pub(crate) fn ring_all(directory: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(FILE.as_bytes()) {
                Shared::<Self>::open(&entry.path())?.doorbell.ring();
            }
        }
        Ok(())
    }

    /// Whether a cable is in the port.
    pub(crate) fn is_plugged(&self) -> bool {
        // Relaxed: nothing else depends on when a pulled cable is noticed.
        self.unplugged.load(Ordering::Relaxed) == 0
    }

    /// Pulls the cable, or puts it back. Who sleeps does not see it before a doorbell rings.
    pub(crate) fn plug(&self, is_plugged: bool) {
        // Relaxed: as above; the doorbells order it for sleepers.
        self.unplugged.store(u32::from(!is_plugged), Ordering::Relaxed);
    }

    /// A number that no queue pair of the hosts' has had.
    ///
    /// The two ends of a cable never have the same, so that who mixes them up is found out.
    pub(crate) fn next_number(&self, port: Port) -> u32 {
        // Relaxed: only its being unique counts.
        let made = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        (made & 0xffff) << 8 | u32::from(port.host) << 4 | u32::from(port.number)
    }

    /// How many of a resource nobody has given back.
    pub(crate) fn in_use(&self, resource: Resource) -> usize {
        // Relaxed: as in `Claim::drop`.
        let is_taken = |slot: &&AtomicU32| slot.load(Ordering::Relaxed) != 0;
        self.slots(resource).iter().filter(is_taken).count()
    }

    fn slots(&self, resource: Resource) -> &[AtomicU32] {
        match resource {
            Resource::QueuePair => &self.queue_pairs,
            Resource::Region => &self.regions,
            Resource::Domain => &self.domains,
        }
    }
}

/// One resource, held until this is dropped, or until this process ends.
#[derive(Debug)]
pub(crate) struct Claim {
    adapter: Arc<Shared<Adapter>>,
    resource: Resource,
    slot: usize,
}

impl Claim {
    /// Takes one, or fails with `exhausted`.
    pub(crate) fn new(
        adapter: &Arc<Shared<Adapter>>,
        resource: Resource,
        exhausted: Errno,
    ) -> Result<Self> {
        let slots = adapter.slots(resource);
        let slot = slots.iter().position(take).ok_or(exhausted)?;
        Ok(Self { adapter: adapter.clone(), resource, slot })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Relaxed: a slot orders nothing but itself.
        self.adapter.slots(self.resource)[self.slot].store(0, Ordering::Relaxed);
    }
}

/// Takes a slot that nobody holds who is alive.
fn take(slot: &AtomicU32) -> bool {
    // Relaxed: as in `Claim::drop`.
    let holder = slot.load(Ordering::Relaxed);
    if holder != 0 && is_alive(holder) {
        return false;
    }
    let us = std::process::id();
    slot.compare_exchange(holder, us, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

fn is_alive(process: u32) -> bool {
    let Ok(process) = libc::pid_t::try_from(process) else { return false };
    // SAFETY: signal 0 is none: the call only looks whether the process is there.
    let rc = unsafe { libc::kill(process, 0) };
    rc == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}
