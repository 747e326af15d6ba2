//! How long a frame takes.

use std::time::Duration;

use crate::Moment;

/// A cable: what it costs to send a frame, to carry its bytes, and to get to the other end.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// From the last byte's leaving to its arrival.
    pub latency: Duration,
    /// Bytes a second, each way.
    pub bandwidth: u64,
    /// Time in which a node hands one frame to the wire, before it can hand over another.
    pub cost: Duration,
    /// Frames of each class that a link over the cable keeps under way: a power of two.
    pub window: u16,
}

impl Model {
    /// Thunderbolt 5 between two Macs, from figures that others have published: 8.9 GB/s each way
    /// and a round trip of about 10 us (`ibv_uc_pingpong`; SQCU/mesh), 0.4 us for posting a frame
    /// (ashhart/MCDMA). A frame of 4 KiB takes 5 us one way, of which 4.1 us are not explained by
    /// posting and carrying it.
    pub const THUNDERBOLT_5: Self = Self {
        latency: Duration::from_nanos(4100),
        bandwidth: 8_900_000_000,
        cost: Duration::from_nanos(400),
        window: 256,
    };

    /// InfiniBand NDR: 400 Gb/s a port (the manual of NVIDIA's ConnectX-7). That a short message
    /// takes about 1 us, and posting it 0.1 us, is what is commonly said of such adapters; it was
    /// not measured for this project.
    pub const INFINIBAND: Self = Self {
        latency: Duration::from_nanos(900),
        bandwidth: 50_000_000_000,
        cost: Duration::from_nanos(100),
        window: 256,
    };

    /// How long the wire takes in `len` bytes.
    pub fn transfer(&self, len: usize) -> Duration {
        let nanos = (len as u64).saturating_mul(1_000_000_000) / self.bandwidth;
        Duration::from_nanos(nanos)
    }
}

/// One direction of a cable.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Direction {
    handed_over: Moment,
    left: Moment,
    last_arrival: Moment,
}

impl Direction {
    /// When a frame of `len` bytes, sent now, has left, and when it arrives if nothing befalls it.
    pub(super) fn send(&mut self, now: Moment, len: usize, model: &Model) -> (Moment, Moment) {
        self.handed_over = self.handed_over.max(now).after(model.cost);
        self.left = self.left.max(self.handed_over).after(model.transfer(len));
        (self.left, self.left.after(model.latency))
    }

    /// Keeps arrivals in order: the moment, or that of the frame before if it is later.
    pub(super) fn in_order(&mut self, arrival: Moment) -> Moment {
        self.last_arrival = self.last_arrival.max(arrival);
        self.last_arrival
    }
}
