//! Frames that say what has arrived, and nothing else.

use super::{
    Class, Slab, SlotId,
    frame::{HEAD_LEN, PREFIX_LEN},
    inbox::Inbox,
};

/// Reports that may be under way to being read by the wire.
pub(super) const REPORTS: u16 = 8;

/// The slots that reports are sent from.
#[derive(Debug)]
pub(super) struct Reports {
    // Where they begin among the slots of the link.
    base: u16,
    is_on_wire: [bool; REPORTS as usize],
}

impl Reports {
    pub(super) fn new(base: u16) -> Self {
        Self { base, is_on_wire: [false; REPORTS as usize] }
    }

    /// Whether a report can be written now.
    pub(super) fn has_room(&self) -> bool {
        self.is_on_wire.contains(&false)
    }

    /// Writes what has arrived into a slot, if the wire does not read all of them; the slot, and
    /// the bytes of payload.
    pub(super) fn write(
        &mut self,
        inboxes: &[Inbox; Class::COUNT],
        slab: &mut Slab,
    ) -> Option<(SlotId, usize)> {
        let index = self.is_on_wire.iter().position(|is_on_wire| !is_on_wire)?;
        self.is_on_wire[index] = true;
        let slot = SlotId(self.base + u16::try_from(index).expect("there are few reports"));
        let payload = &mut slab[slot.index()][HEAD_LEN..];
        let requests = inboxes[0].write_bits(&mut payload[PREFIX_LEN..]);
        let replies = inboxes[1].write_bits(&mut payload[PREFIX_LEN + requests..]);
        let prefix = u16::try_from(requests).expect("a bit map is short").to_le_bytes();
        payload[..PREFIX_LEN].copy_from_slice(&prefix);
        Some((slot, PREFIX_LEN + requests + replies))
    }

    /// The wire no longer reads the slot at `index`.
    pub(super) fn sent(&mut self, index: usize) {
        assert!(self.is_on_wire[index], "a slot that was not on the wire has left it");
        self.is_on_wire[index] = false;
    }
}
