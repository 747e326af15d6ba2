//! Names: each is kept by one node, which everybody can tell from the name.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use pangea_rdma::NodeId;

use crate::{
    Error, Result,
    progress::Shared,
    wire::{HandleWire, Message, Reply},
};

/// Bytes of the longest name.
const NAME_LEN_MAX: usize = 255;

/// A request to be answered later: who asked, and by which ticket.
pub(crate) type Asker = (NodeId, u64);

/// The names that this node keeps.
#[derive(Debug, Default)]
pub(crate) struct Names {
    entries: Mutex<HashMap<String, Entry>>,
}

#[derive(Debug)]
enum Entry {
    /// Looked up before it was published.
    Awaited(Vec<Asker>),
    Published(HandleWire),
}

impl Names {
    /// Keeps `handle` under `name`, and answers `asker` and all who have waited for it.
    pub(crate) fn publish(
        &self,
        name: String,
        handle: HandleWire,
        asker: Asker,
        reply: &dyn Fn(Asker, Reply),
    ) {
        let mut entries = self.lock();
        let awaited = match entries.get_mut(&name) {
            Some(Entry::Published(_)) => return reply(asker, Reply::NameTaken),
            Some(Entry::Awaited(askers)) => std::mem::take(askers),
            None => Vec::new(),
        };
        entries.insert(name, Entry::Published(handle.clone()));
        drop(entries);
        reply(asker, Reply::Published);
        for asker in awaited {
            reply(asker, Reply::Found(handle.clone()));
        }
    }

    /// What is published under `name`; else `asker` is answered when something is.
    pub(crate) fn find(&self, name: String, asker: Asker) -> Option<HandleWire> {
        match self.lock().entry(name).or_insert_with(|| Entry::Awaited(Vec::new())) {
            Entry::Published(handle) => Some(handle.clone()),
            Entry::Awaited(askers) => {
                askers.push(asker);
                None
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Publishes `handle` under `name`.
pub(crate) fn publish(shared: &Shared, name: &str, handle: HandleWire) -> Result {
    let keeper = keeper(shared, name)?;
    let owned = name.to_owned();
    let reply =
        shared.request(keeper, &format!("{keeper} to keep the name '{name}'"), |ticket| {
            Message::Publish { ticket, name: owned, handle }
        })?;
    match reply {
        Reply::Published => Ok(()),
        Reply::NameTaken => Err(Error::NameTaken { name: name.to_owned() }),
        other => Err(unexpected(&other)),
    }
}

/// What is published under `name`, waiting for it if need be.
pub(crate) fn look_up(shared: &Shared, name: &str) -> Result<HandleWire> {
    let keeper = keeper(shared, name)?;
    let owned = name.to_owned();
    let waiting_for = format!("'{name}' to be published");
    let request = |ticket| Message::Lookup { ticket, name: owned };
    let may_wait = || shared.check_answerable(keeper).and_then(|()| shared.check_company());
    let reply = shared.request_while(keeper, &waiting_for, request, &may_wait)?;
    match reply {
        Reply::Found(handle) => Ok(handle),
        other => Err(unexpected(&other)),
    }
}

pub(crate) fn unexpected(reply: &Reply) -> Error {
    Error::Protocol { reason: format!("an answer to another question: {reply:?}") }
}

/// The node that keeps `name`: by its hash (FNV-1a), so that all nodes agree without asking.
fn keeper(shared: &Shared, name: &str) -> Result<NodeId> {
    if name.is_empty() || name.len() > NAME_LEN_MAX {
        let reason =
            format!("'{name:.40}' has {} bytes; a name has 1 to {NAME_LEN_MAX}", name.len());
        return Err(Error::Config { field: "name", reason });
    }
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    let number = hash % u64::from(shared.fabric.nodes());
    Ok(NodeId::new(u16::try_from(number).expect("a node's number")))
}
