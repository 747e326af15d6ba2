//! Virtual time: it jumps from one event to the next.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::Moment;

/// Events that are to come, and the time, which is that of the last that came.
#[derive(Debug)]
pub struct Clock<T> {
    now: Moment,
    // Events of one moment come in the order in which they were planned.
    planned: u64,
    queue: BinaryHeap<Reverse<Planned<T>>>,
}

impl<T> Default for Clock<T> {
    fn default() -> Self {
        Self { now: Moment::START, planned: 0, queue: BinaryHeap::new() }
    }
}

impl<T> Clock<T> {
    /// The time.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// When the next event comes.
    pub fn next_at(&self) -> Option<Moment> {
        self.queue.peek().map(|Reverse(next)| next.key.0)
    }

    /// Has `event` come at `at`, or now if that is past.
    pub fn plan(&mut self, at: Moment, event: T) {
        self.planned += 1;
        self.queue.push(Reverse(Planned { key: (at.max(self.now), self.planned), event }));
    }

    /// Goes on to the next event, if it comes until `deadline`; else to `deadline`.
    pub fn advance_until(&mut self, deadline: Moment) -> Option<T> {
        if self.next_at().is_some_and(|at| at <= deadline) {
            return self.advance();
        }
        self.now = self.now.max(deadline);
        None
    }

    /// Goes on to the next event; `None` where nothing is planned.
    pub fn advance(&mut self) -> Option<T> {
        let Reverse(Planned { key: (at, _), event }) = self.queue.pop()?;
        self.now = at;
        Some(event)
    }
}

#[derive(Debug)]
struct Planned<T> {
    key: (Moment, u64),
    event: T,
}

impl<T> PartialEq for Planned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Planned<T> {}

impl<T> PartialOrd for Planned<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Planned<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}
