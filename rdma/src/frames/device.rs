//! Frames by an adapter, over an unreliable connection.

use std::{
    os::fd::{AsRawFd, RawFd},
    time::Instant,
};

use super::{Event, Wire};
use crate::{
    Error, Result,
    link::{Slab, SlotId},
    verbs::uc::{self, Uc},
};

/// An adapter's connection to a peer.
#[derive(Debug)]
pub(crate) struct Device {
    wire: Uc,
    tells: bool,
}

impl Device {
    /// `tells` says whether the device is known to tell when something comes.
    pub(crate) fn new(wire: Uc, tells: bool) -> Self {
        Self { wire, tells }
    }
}

impl Wire for Device {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn slab(&mut self) -> &mut Slab {
        self.wire.slab()
    }

    fn send(&mut self, slot: SlotId, len: usize) -> bool {
        self.wire.send(u32::from(slot.0), len)
    }

    fn ring(&mut self) {
        self.wire.ring();
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        self.wire.poll(&mut |event| match event {
            uc::Event::Frame(frame) => sink(Event::Frame(frame)),
            uc::Event::Sent { slot } => {
                sink(Event::Sent(SlotId(u16::try_from(slot).expect("slots are few"))));
            }
            // The link notices what is missing.
            uc::Event::Damaged => {}
        });
    }

    fn check(&self) -> Result {
        let Some(status) = self.wire.lost() else { return Ok(()) };
        Err(Error::protocol(format!("the connection is broken: {status}")))
    }

    fn tells(&self) -> bool {
        self.tells
    }

    fn arm(&mut self) {
        self.wire.disarm();
        // A device that cannot tell is looked at now and then.
        _ = self.wire.arm();
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.wire.descriptor().map(|descriptor| descriptor.as_raw_fd())
    }
}
