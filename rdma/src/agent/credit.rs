//! How many messages two nodes may still send each other.
//!
//! A node keeps the messages that come while its program does not look, and has room for
//! [`MESSAGES_MAX`] of each peer. A peer begins with credit for so many, spends one with every
//! message, and is given credit again, many at a time, as they are handed out. Without it, nothing
//! is sent: whatever else goes over the same link never waits behind a message that nobody takes.
//!
//! # Memory ordering
//!
//! The words of [`Grants`] are atomic so that a message costs no lock. All accesses are Relaxed, as
//! they are counts: credit is given with the peer's lock, and where there seems to be none it is
//! looked for again with that lock.

use crate::{
    MESSAGES_MAX,
    primitive::{AtomicU32, Ordering},
};

/// Messages that are handed out before credit for them is given back: a packet for many, and long
/// before the peer has none left.
pub(super) const BATCH: u32 = MESSAGES_MAX / 4;
/// Gifts of credit that an honest peer may have left unread: it was given no more than it spent.
pub(super) const GIFTS_MAX: usize = (MESSAGES_MAX / BATCH) as usize;

const _: () = assert!(BATCH > 0 && MESSAGES_MAX.is_multiple_of(BATCH), "all credit is given back");

/// What this node may send to a peer.
#[derive(Debug)]
pub(super) struct Credits {
    // Messages.
    own: u32,
    want: Want,
}

/// What a peer may send to this node.
#[derive(Debug)]
pub(super) struct Grants {
    // Messages.
    granted: AtomicU32,
    // Messages that were handed out, and for which the peer was given nothing yet.
    owed: AtomicU32,
}

/// Whether this node wants to send messages for which there was no credit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Want {
    Nothing,
    /// One was refused.
    Credit,
    /// There is credit for it now.
    ToSend,
}

impl Credits {
    pub(super) fn new() -> Self {
        Self { own: MESSAGES_MAX, want: Want::Nothing }
    }

    /// Whether there is credit again, and what was refused was not posted since.
    pub(super) fn has_room_again(&self) -> bool {
        self.want == Want::ToSend
    }

    /// Takes credit for a message to the peer; `false` where there is none.
    #[must_use]
    pub(super) fn spend(&mut self) -> bool {
        let is_there = self.own > 0;
        self.want = if is_there { Want::Nothing } else { Want::Credit };
        self.own -= u32::from(is_there);
        is_there
    }

    /// Takes in credit that the peer gives; `false` where it gives more than it was sent.
    #[must_use]
    pub(super) fn receive(&mut self, count: u64) -> bool {
        let own = u32::try_from(count).ok().and_then(|count| self.own.checked_add(count));
        let Some(own) = own.filter(|own| *own <= MESSAGES_MAX) else { return false };
        self.own = own;
        if own > 0 && self.want == Want::Credit {
            self.want = Want::ToSend;
        }
        true
    }

    /// Takes note that who wants to send waits for something else, or for nothing any more.
    pub(super) fn want_nothing(&mut self) {
        self.want = Want::Nothing;
    }
}

impl Grants {
    pub(super) fn new() -> Self {
        Self { granted: AtomicU32::new(MESSAGES_MAX), owed: AtomicU32::new(0) }
    }

    /// Takes note that a message has come; `false` where there seems to be no credit for it. One
    /// thread at a time.
    #[must_use]
    pub(super) fn take_in(&self) -> bool {
        let is_there = self.granted.load(Ordering::Relaxed) > 0;
        if is_there {
            self.granted.fetch_sub(1, Ordering::Relaxed);
        }
        is_there
    }

    /// Takes note that a message was handed out; whether it is time to give credit.
    pub(super) fn hand_out(&self) -> bool {
        self.owed.fetch_add(1, Ordering::Relaxed) + 1 >= BATCH
    }

    /// Gives the peer all credit that it is owed; returns how much that is. With the peer's lock.
    pub(super) fn give(&self) -> u64 {
        let count = self.owed.swap(0, Ordering::Relaxed);
        let before = self.granted.fetch_add(count, Ordering::Relaxed);
        assert!(before + count <= MESSAGES_MAX, "what is handed out has come before");
        u64::from(count)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn credit_goes_round_for_ever_and_never_grows() {
        let (mut sender, receiver) = (Credits::new(), Grants::new());
        let mut sent = 0;
        for _ in 0..10 {
            while sender.spend() {
                assert!(receiver.take_in(), "who has credit may send");
                sent += 1;
            }
            assert!(!receiver.take_in(), "who has none may not");
            assert!(!sender.has_room_again());
            for _ in 0..MESSAGES_MAX {
                if receiver.hand_out() {
                    assert!(sender.receive(receiver.give()));
                    assert!(sender.has_room_again());
                }
            }
        }
        assert_eq!(sent, 10 * MESSAGES_MAX);
    }

    #[test]
    fn nobody_is_told_of_room_who_was_not_refused() {
        let mut credits = Credits::new();
        assert!(credits.spend() && credits.receive(1));
        assert!(!credits.has_room_again());
    }

    #[test]
    fn a_peer_that_gives_more_than_it_was_sent_is_found_out() {
        let mut credits = Credits::new();
        assert!(!credits.receive(1), "nothing was sent");
        assert!(credits.spend());
        for count in [2, u64::from(u32::MAX), u64::from(u32::MAX) + 1, u64::MAX] {
            assert!(!credits.receive(count), "{count}");
        }
        assert!(credits.receive(1));
    }
}
