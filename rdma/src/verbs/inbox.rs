//! The receives that wait for a peer's messages.

use std::{ptr, sync::Arc};

use super::{
    cells::Cells, completion_queue::Ended, protection_domain::ProtectionDomain,
    queue_pair::QueuePair, sys,
};
use crate::{MESSAGE_LEN_MAX, Result};

/// Set in the numbers of receives, to tell them from those of sends.
const RECEIVE: u64 = 1 << 63;

/// Memory for as many messages as may come at a time.
#[derive(Debug)]
pub(super) struct Inbox {
    cells: Cells,
    receives: u32,
    // Receives that have been posted; the others wait for the connection.
    posted: u32,
}

impl Inbox {
    /// Memory for `receives` messages.
    pub(super) fn new(domain: &Arc<ProtectionDomain>, receives: u32) -> Result<Self> {
        let cells = Cells::new(domain, receives as usize * MESSAGE_LEN_MAX)?;
        Ok(Self { cells, receives, posted: 0 })
    }

    /// Posts the receives that never were.
    pub(super) fn open(&mut self, pair: &QueuePair) -> Result {
        while self.posted < self.receives {
            self.post(pair, self.posted)?;
            self.posted += 1;
        }
        Ok(())
    }

    /// Whether it is a receive that ended.
    #[inline]
    pub(super) fn is_receive(ended: Ended) -> bool {
        ended.work & RECEIVE != 0
    }

    /// The message that came with a receive that ended, until that is posted again.
    pub(super) fn message(&self, ended: Ended) -> &[u8] {
        let len = (ended.len as usize).min(MESSAGE_LEN_MAX);
        // SAFETY: the receive has ended, and is not posted again while the message is borrowed:
        // `post_again` borrows `self` alone.
        unsafe { self.cells.bytes(cell_of(number_of(ended)), len) }
    }

    /// Posts a receive that ended again.
    pub(super) fn post_again(&mut self, pair: &QueuePair, ended: Ended) -> Result {
        self.post(pair, number_of(ended))
    }

    fn post(&mut self, pair: &QueuePair, number: u32) -> Result {
        assert!(number < self.receives, "a receive of this inbox");
        let mut element = self.cells.element(cell_of(number), MESSAGE_LEN_MAX);
        let mut request = sys::ibv_recv_wr {
            wr_id: RECEIVE | u64::from(number),
            next: ptr::null_mut(),
            sg_list: &raw mut element,
            num_sge: 1,
        };
        // SAFETY: the request lives during the call; its memory is registered for as long as the
        // pair, and nobody looks at it until the receive has ended. The queue has room for all.
        unsafe { pair.post_receive(&raw mut request) }
    }
}

fn number_of(ended: Ended) -> u32 {
    u32::try_from(ended.work & !RECEIVE).expect("receives have numbers of 32 bits")
}

fn cell_of(number: u32) -> usize {
    number as usize * MESSAGE_LEN_MAX
}
