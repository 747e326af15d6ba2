//! Requests to other nodes: a number for each, by which its answer comes back.

use std::{
    collections::HashMap,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use pangea_rdma::NodeId;

use crate::{Error, Result, wire::Reply};

/// Requests that wait for their answers.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    open: Mutex<HashMap<u64, Ticket>>,
    changed: Condvar,
    last: AtomicU64,
}

#[derive(Debug)]
struct Ticket {
    asked: NodeId,
    reply: Option<Reply>,
}

impl Tickets {
    /// A number for a request to `asked`, until it is closed, or was waited for.
    pub(crate) fn issue(&self, asked: NodeId) -> u64 {
        // Relaxed: a ticket need only differ from the others.
        let ticket = self.last.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(ticket, Ticket { asked, reply: None });
        ticket
    }

    /// Closes a request that was not sent.
    pub(crate) fn close(&self, ticket: u64) {
        self.lock().remove(&ticket);
    }

    /// Takes in an answer of `source`, the first from who was asked; gives back one that nobody
    /// waits for.
    pub(crate) fn answer(&self, source: NodeId, ticket: u64, reply: Reply) -> Option<Reply> {
        let mut open = self.lock();
        let Some(ticket) = open.get_mut(&ticket) else { return Some(reply) };
        if ticket.asked == source && ticket.reply.is_none() {
            ticket.reply = Some(reply);
            self.changed.notify_all();
        }
        None
    }

    /// Makes who waits look whether it still may.
    pub(crate) fn look_again(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    /// The answer to the request that has `ticket`, which is closed then, whether one came or not:
    /// what comes later is given back by [`answer`](Self::answer), and nothing comes in between.
    pub(crate) fn wait(
        &self,
        ticket: u64,
        deadline: Instant,
        waiting_for: &str,
        may_wait: &dyn Fn() -> Result,
    ) -> Result<Reply> {
        let start = Instant::now();
        let mut open = self.lock();
        let reply = loop {
            if let Some(reply) = open.get_mut(&ticket).and_then(|ticket| ticket.reply.take()) {
                break Ok(reply);
            }
            if let Err(error) = may_wait() {
                break Err(error);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let waiting_for = waiting_for.to_owned();
                break Err(Error::TimedOut { waiting_for, after: start.elapsed() });
            }
            open = match self.changed.wait_timeout(open, left) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        };
        // The lock is the one under which there was no answer.
        open.remove(&ticket);
        reply
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Ticket>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: NodeId = NodeId::new(1);

    #[test]
    fn an_answer_that_comes_too_late_is_given_back() {
        let tickets = Tickets::default();
        let lost = || Err(Error::PeerLost { node: HOME, epoch: 2 });
        for may_wait in [&(|| Ok(())) as &dyn Fn() -> Result, &lost] {
            let ticket = tickets.issue(HOME);
            tickets.wait(ticket, Instant::now(), "memory", may_wait).unwrap_err();
            let late = tickets.answer(HOME, ticket, Reply::Allocated(64));
            assert_eq!(late, Some(Reply::Allocated(64)));
        }
    }

    #[test]
    fn an_answer_that_came_in_time_is_had_whatever_happens_then() {
        let tickets = Tickets::default();
        let ticket = tickets.issue(HOME);
        assert_eq!(tickets.answer(HOME, ticket, Reply::Published), None);
        let lost = || Err(Error::PeerLost { node: HOME, epoch: 2 });
        let reply = tickets.wait(ticket, Instant::now(), "a name", &lost);
        assert_eq!(reply.unwrap(), Reply::Published);
        assert!(tickets.lock().is_empty());
    }
}
