//! Messages on their way out.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pangea_rdma::{Fabric, NodeId, Op, Request, Token};

use crate::{
    Result,
    wire::{self, Message},
};

/// Letters to one node that may wait when another is an answer to it.
const WAITING_MAX: usize = 1024;

/// Messages on their way: their bytes stay where they are until the fabric has done with them.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    state: Mutex<Letters>,
}

#[derive(Debug, Default)]
struct Letters {
    next: u64,
    // By receiver, so that one who does not read keeps nobody else waiting.
    waiting: BTreeMap<NodeId, VecDeque<Letter>>,
    posted: HashMap<Token, Letter>,
}

/// Shared, so that it can be moved while the fabric reads it: the bytes stay where they are.
type Letter = Arc<[u8]>;

impl Outbox {
    /// Posts `message`, or keeps it until there is room. It is for what this node's program does,
    /// which waits for its requests, and gives back no more than it has been given.
    pub(crate) fn send(&self, fabric: &dyn Fabric, node: NodeId, message: &Message) -> Result {
        let letter = wire::encode(message)?;
        self.lock().waiting.entry(node).or_default().push_back(letter);
        self.flush(fabric);
        Ok(())
    }

    /// As [`send`](Self::send), for what `node` itself has caused: one that asks and does not read
    /// is no longer answered, before it fills this node's memory. An answer that cannot be sent is
    /// forgotten: its node is gone, and waits for nothing, or will give up waiting.
    pub(crate) fn answer(&self, fabric: &dyn Fabric, node: NodeId, message: &Message) {
        let waiting = self.lock().waiting.get(&node).map_or(0, VecDeque::len);
        if waiting < WAITING_MAX {
            _ = self.send(fabric, node, message);
        }
    }

    /// Posts what is waiting, as far as there is room.
    pub(crate) fn flush(&self, fabric: &dyn Fabric) {
        let Letters { next, waiting, posted } = &mut *self.lock();
        for (&target, letters) in waiting {
            while let Some(letter) = letters.front() {
                let token = Token(*next);
                let op = Op::Send { target, message: NonNull::from(&**letter) };
                // SAFETY: the bytes are only read, and stay where they are until `complete` is
                // called with their token: they are moved, by their `Arc`, to `posted`.
                let count = unsafe { fabric.post(&[Request { token, op }]) };
                if matches!(count, Ok(0)) {
                    break;
                }
                *next += 1;
                let letter = letters.pop_front();
                // Refused outright, it is forgotten; its receiver is lost or never was.
                if let (Ok(_), Some(letter)) = (count, letter) {
                    posted.insert(token, letter);
                }
            }
        }
    }

    /// Forgets the bytes of a message that has been sent.
    pub(crate) fn complete(&self, token: Token) {
        self.lock().posted.remove(&token);
    }

    fn lock(&self) -> MutexGuard<'_, Letters> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use pangea_rdma::{Completion, bootstrap::Meeting, shm::Shm};

    use super::*;

    #[test]
    fn a_node_that_does_not_read_is_no_longer_answered() {
        let fabric = Shm::connect(Meeting::alone(), Instant::now()).unwrap();
        let (outbox, own) = (Outbox::default(), fabric.node());
        let message = Message::Free { offset: 0 };
        let waiting = || outbox.lock().waiting[&own].len();
        // Nobody polls: the ring fills, and then the outbox.
        for _ in 0..1 << 16 {
            outbox.answer(&fabric, own, &message);
        }
        assert_eq!(waiting(), WAITING_MAX);
        // What the program does is not forgotten.
        outbox.send(&fabric, own, &message).unwrap();
        assert_eq!(waiting(), WAITING_MAX + 1);
        let (mut posted, mut came) = (outbox.lock().posted.len(), 0);
        assert!(posted > 0);
        while posted > 0 {
            fabric.poll(&mut |completion| match completion {
                Completion::Message { .. } => came += 1,
                Completion::Done { token, .. } => outbox.complete(token),
                _ => {}
            });
            outbox.flush(&fabric);
            posted = outbox.lock().posted.len();
        }
        assert_eq!(waiting(), 0);
        assert!(came > WAITING_MAX, "those that waited came, and those before them: {came}");
    }
}
