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
    /// Posts `message`, or keeps it until there is room.
    pub(crate) fn send(&self, fabric: &dyn Fabric, node: NodeId, message: &Message) -> Result {
        let letter = wire::encode(message)?;
        self.lock().waiting.entry(node).or_default().push_back(letter);
        self.flush(fabric);
        Ok(())
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
