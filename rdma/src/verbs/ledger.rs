//! What is left of a device's resources: counted here, as drivers count badly.
//!
//! Thunderbolt's takes more receives than it can hold and corrupts them, and answers the eleventh
//! queue pair with an error that looks as if waiting would help.

use std::fmt;

/// Something a device has few of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Resource {
    /// Pairs of a send and a receive queue.
    QueuePair,
    /// Ranges of memory that the device may touch.
    MemoryRegion,
    /// Groups of the two above.
    ProtectionDomain,
    /// Places for frames of 4 KiB in the queues, sends and receives together.
    Frame,
}

impl Resource {
    const COUNT: usize = 4;

    const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::QueuePair => "queue pairs",
            Self::MemoryRegion => "memory regions",
            Self::ProtectionDomain => "protection domains",
            Self::Frame => "frames in flight",
        })
    }
}

/// A device has not enough left.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Exhausted {
    /// Of what.
    pub resource: Resource,
    /// How many were asked for.
    pub wanted: u32,
    /// How many are taken.
    pub taken: u32,
    /// How many there are.
    pub limit: u32,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, wanted, taken, limit } = self;
        write!(f, "{wanted} more {resource} than the {taken} in use exceed the limit of {limit}")
    }
}

/// What this process has taken of one device, against the device's limits.
#[derive(Clone, Debug)]
pub struct Ledger {
    limits: [u32; Resource::COUNT],
    taken: [u32; Resource::COUNT],
}

impl Ledger {
    /// The limits of RDMA over Thunderbolt: 10 of the 11 queue pairs that its driver claims work,
    /// and as many protection domains; a hundred memory regions; 4,095 frames.
    pub const fn thunderbolt() -> Self {
        Self::new(10, 100, 10, 4095)
    }

    /// The limits that a device states itself. Frames are none of its worries: its queues refuse
    /// what they cannot hold.
    pub const fn new(
        queue_pairs: u32,
        memory_regions: u32,
        protection_domains: u32,
        frames: u32,
    ) -> Self {
        let limits = [queue_pairs, memory_regions, protection_domains, frames];
        Self { limits, taken: [0; Resource::COUNT] }
    }

    /// Takes `count` of `resource`, or says why not.
    pub fn take(&mut self, resource: Resource, count: u32) -> Result<(), Exhausted> {
        let limit = self.limits[resource.index()];
        let taken = &mut self.taken[resource.index()];
        match taken.checked_add(count) {
            Some(sum) if sum <= limit => *taken = sum,
            _ => return Err(Exhausted { resource, wanted: count, taken: *taken, limit }),
        }
        Ok(())
    }

    /// Gives back what was taken.
    pub fn give_back(&mut self, resource: Resource, count: u32) {
        let taken = &mut self.taken[resource.index()];
        *taken = taken.checked_sub(count).expect("no more is given back than was taken");
    }

    /// How many of `resource` can still be taken.
    pub fn left(&self, resource: Resource) -> u32 {
        self.limits[resource.index()] - self.taken[resource.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eleventh_queue_pair_is_refused_before_the_driver_is_asked() {
        let mut ledger = Ledger::thunderbolt();
        for _ in 0..10 {
            ledger.take(Resource::QueuePair, 1).unwrap();
        }
        let refusal = ledger.take(Resource::QueuePair, 1).unwrap_err();
        let text = "1 more queue pairs than the 10 in use exceed the limit of 10";
        assert_eq!(refusal.to_string(), text);
        ledger.give_back(Resource::QueuePair, 1);
        ledger.take(Resource::QueuePair, 1).unwrap();
    }

    #[test]
    fn a_refusal_takes_nothing() {
        let mut ledger = Ledger::thunderbolt();
        ledger.take(Resource::Frame, 4000).unwrap();
        ledger.take(Resource::Frame, 96).unwrap_err();
        ledger.take(Resource::Frame, u32::MAX).unwrap_err();
        assert_eq!(ledger.left(Resource::Frame), 95);
        ledger.take(Resource::Frame, 95).unwrap();
    }

    #[test]
    fn resources_are_counted_apart() {
        let mut ledger = Ledger::new(1, 2, 3, 4);
        ledger.take(Resource::QueuePair, 1).unwrap();
        assert_eq!(ledger.left(Resource::MemoryRegion), 2);
        assert_eq!(ledger.left(Resource::ProtectionDomain), 3);
        assert_eq!(ledger.left(Resource::Frame), 4);
    }
}
