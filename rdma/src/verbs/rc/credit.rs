//! Never more messages on their way than the receiver has posted receives for.
//!
//! A message of any class takes one of the peer's receives; the peer tells with its own messages
//! how many it has posted again. The last receives are kept for what keeps the conversation going:
//! were both ends to spend their last on anything else, neither could tell the other that it may
//! speak.

/// Receives that each end posts.
pub(super) const WINDOW: u32 = 64;

/// Receives to be told of before a message is sent only to tell it.
const OWED_MAX: u32 = WINDOW / 2;

const _: () = assert!(OWED_MAX >= 2, "telling must not be answered by telling, without end");
const _: () = assert!(WINDOW - OWED_MAX > 3, "who may not speak is owed enough to be told");

/// What a message is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Class {
    /// Tells how many receives are posted again, and nothing else.
    Credit,
    /// Asks or answers where memory is.
    Control,
    /// The user's.
    Message,
}

impl Class {
    /// Receives that must be left for a message of this class.
    const fn needs(self) -> u32 {
        match self {
            Self::Credit => 1,
            Self::Control => 2,
            Self::Message => 3,
        }
    }
}

/// One end's count.
#[derive(Debug)]
pub(super) struct Credits {
    // Receives of the peer that are free.
    free: u32,
    // Receives of this end that are posted again, and of which the peer was not told.
    owed: u32,
}

impl Credits {
    pub(super) const fn new() -> Self {
        Self { free: WINDOW, owed: 0 }
    }

    /// Whether a message of `class` may be sent.
    pub(super) const fn may_send(&self, class: Class) -> bool {
        self.free >= class.needs()
    }

    /// Takes a receive for a message of `class`; returns what that message tells the peer.
    pub(super) fn spend(&mut self, class: Class) -> u32 {
        assert!(self.may_send(class), "a message has a receive that waits for it");
        self.free -= 1;
        std::mem::take(&mut self.owed)
    }

    /// Notes that a message came, which told of `returned` receives, and that its own receive is
    /// posted again; returns `false` where the peer claims what cannot be.
    #[must_use]
    pub(super) fn receive(&mut self, returned: u32) -> bool {
        self.owed += 1;
        let free = self.free.checked_add(returned).filter(|free| *free <= WINDOW);
        self.free = free.unwrap_or(self.free);
        free.is_some()
    }

    /// Whether the peer must be told, by a message of class [`Class::Credit`] if no other goes.
    pub(super) const fn is_due(&self) -> bool {
        self.owed >= OWED_MAX && self.may_send(Class::Credit)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Two ends that send whenever they may, in the order that the bits of `schedule` say; returns
    /// how many messages each has received.
    fn converse(schedule: u64, steps: u32, classes: [Class; 2]) -> [u32; 2] {
        let mut ends = [Credits::new(), Credits::new()];
        let mut wires: [VecDeque<(Class, u32)>; 2] = Default::default();
        let mut received = [0; 2];
        for step in 0..steps {
            let end = usize::from(schedule.rotate_left(step * 7) & 1 == 1);
            let arrives = schedule.rotate_left(step * 13) & 1 == 1;
            if arrives && let Some((class, told)) = wires[1 - end].pop_front() {
                assert!(ends[end].receive(told));
                received[end] += u32::from(class != Class::Credit);
            }
            let class = if ends[end].is_due() { Class::Credit } else { classes[end] };
            if ends[end].may_send(class) {
                let told = ends[end].spend(class);
                wires[end].push_back((class, told));
                assert!(wires[end].len() <= WINDOW as usize, "every message has a receive");
            }
        }
        received
    }

    #[test]
    fn a_conversation_never_stops_and_never_overruns() {
        let classes = [Class::Control, Class::Message];
        for seed in 1..500_u64 {
            let schedule = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            for pair in [[classes[0]; 2], [classes[1]; 2], classes] {
                let (early, late) =
                    (converse(schedule, 5000, pair), converse(schedule, 10_000, pair));
                for end in 0..2 {
                    assert!(
                        late[end] > early[end] + 200,
                        "seed {seed} {pair:?} {early:?} {late:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn silence_is_not_answered_by_telling() {
        let (mut ours, mut theirs) = (Credits::new(), Credits::new());
        let mut told = 0;
        for _ in 0..WINDOW - 3 {
            assert!(theirs.receive(ours.spend(Class::Message)));
        }
        // Each tells as long as it must: the conversation ends.
        while ours.is_due() || theirs.is_due() {
            let (from, to) =
                if ours.is_due() { (&mut ours, &mut theirs) } else { (&mut theirs, &mut ours) };
            assert!(to.receive(from.spend(Class::Credit)));
            told += 1;
            assert!(told < 4, "telling goes on without end");
        }
        assert_eq!(told, 1);
    }

    #[test]
    fn a_peer_that_claims_too_much_is_found_out() {
        let mut credits = Credits::new();
        assert!(!credits.receive(1), "nothing was sent that could be returned");
        assert_eq!(credits.spend(Class::Message), 1);
        assert!(credits.receive(1));
        assert!(!credits.receive(u32::MAX));
    }
}
