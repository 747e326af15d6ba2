//! Names: each is kept by one node, which everybody can tell from the name.
//!
//! What peers can make a keeper hold is bounded: names, and lookups that wait, which an honest node
//! leaves behind too, when it gives up waiting.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use pangea_rdma::NodeId;

use crate::{
    Error, Result, layout,
    progress::Shared,
    wire::{HandleWire, Message, Reply},
};

/// Bytes of the longest name.
const NAME_LEN_MAX: usize = 255;
/// Names that a node keeps; with what a message can hold, some hundreds of MiB.
const NAMES_MAX: usize = 1 << 16;
/// Lookups of one node that wait at a keeper.
const LOOKUPS_MAX: usize = 256;

/// A request to be answered later: who asked, and by which ticket.
pub(crate) type Asker = (NodeId, u64);

/// The names that this node keeps.
#[derive(Debug, Default)]
pub(crate) struct Names {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    published: HashMap<String, HandleWire>,
    // Names that were looked up before they were published, with the tickets; by who asked, the
    // oldest first.
    awaited: HashMap<NodeId, VecDeque<(String, u64)>>,
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
        if let Err(reason) = check(&name) {
            return reply(asker, Reply::Refused(reason));
        }
        let mut table = self.lock();
        if table.published.contains_key(&name) {
            return reply(asker, Reply::NameTaken);
        }
        if table.published.len() >= NAMES_MAX {
            let reason = format!(
                "there is no room for '{name:.40}': its keeper has {NAMES_MAX} names; publish \
                 fewer, longer vectors"
            );
            return reply(asker, Reply::Refused(reason));
        }
        let askers = table.take_askers(&name);
        table.published.insert(name, handle.clone());
        drop(table);
        reply(asker, Reply::Published);
        for asker in askers {
            reply(asker, Reply::Found(handle.clone()));
        }
    }

    /// Answers `asker` with what is published under `name`, now or when something is. Where too
    /// much is looked up by the node that asks, its oldest lookup gives way: that is likely to be
    /// one that it has given up.
    pub(crate) fn find(&self, name: String, asker: Asker, reply: &dyn Fn(Asker, Reply)) {
        if let Err(reason) = check(&name) {
            return reply(asker, Reply::Refused(reason));
        }
        let mut table = self.lock();
        if let Some(handle) = table.published.get(&name).cloned() {
            drop(table);
            return reply(asker, Reply::Found(handle));
        }
        let (node, ticket) = asker;
        let lookups = table.awaited.entry(node).or_default();
        let oldest = (lookups.len() >= LOOKUPS_MAX).then(|| lookups.pop_front()).flatten();
        lookups.push_back((name, ticket));
        drop(table);
        if let Some((name, ticket)) = oldest {
            let reason = format!(
                "the lookup of '{name:.40}' gave way to {LOOKUPS_MAX} later ones of {node}; look \
                 up fewer names at a time"
            );
            reply((node, ticket), Reply::Refused(reason));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Takes out the lookups of `name`.
    fn take_askers(&mut self, name: &str) -> Vec<Asker> {
        let mut askers = Vec::new();
        for (&node, lookups) in &mut self.awaited {
            lookups.retain(|(awaited, ticket)| {
                let is_other = awaited != name;
                if !is_other {
                    askers.push((node, *ticket));
                }
                is_other
            });
        }
        askers
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
        Reply::Refused(reason) => Err(Error::Config { field: "name", reason }),
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
        Reply::Refused(reason) => Err(Error::Config { field: "name", reason }),
        other => Err(unexpected(&other)),
    }
}

pub(crate) fn unexpected(reply: &Reply) -> Error {
    Error::Protocol { reason: format!("an answer to another question: {reply:?}") }
}

/// What is wrong with `name`, if something is.
fn check(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > NAME_LEN_MAX {
        let len = name.len();
        return Err(format!("'{name:.40}' has {len} bytes; a name has 1 to {NAME_LEN_MAX}"));
    }
    Ok(())
}

/// The node that keeps `name`: by its hash, so that all nodes agree without asking.
fn keeper(shared: &Shared, name: &str) -> Result<NodeId> {
    check(name).map_err(|reason| Error::Config { field: "name", reason })?;
    let number = layout::hash(layout::START, name.as_bytes()) % u64::from(shared.fabric.nodes());
    Ok(NodeId::new(u16::try_from(number).expect("a node's number")))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const A: NodeId = NodeId::new(0);
    const B: NodeId = NodeId::new(1);

    /// Names, and what they have answered.
    #[derive(Default)]
    struct Keeper {
        names: Names,
        replies: RefCell<Vec<(Asker, Reply)>>,
    }

    impl Keeper {
        fn publish(&self, name: &str, asker: Asker) -> Vec<(Asker, Reply)> {
            self.names.publish(name.to_owned(), handle(), asker, &|to, reply| self.note(to, reply));
            self.replies.take()
        }

        fn find(&self, name: &str, asker: Asker) -> Vec<(Asker, Reply)> {
            self.names.find(name.to_owned(), asker, &|to, reply| self.note(to, reply));
            self.replies.take()
        }

        fn note(&self, to: Asker, reply: Reply) {
            self.replies.borrow_mut().push((to, reply));
        }
    }

    fn handle() -> HandleWire {
        HandleWire { is_frozen: true, type_name: "f32".to_owned(), layout: 0, parts: Vec::new() }
    }

    fn is_refused(replies: &[(Asker, Reply)], asker: Asker) -> bool {
        matches!(replies, [(to, Reply::Refused(_))] if *to == asker)
    }

    #[test]
    fn all_who_wait_for_a_name_are_answered_once() {
        let keeper = Keeper::default();
        // Threads of one node may look the same name up.
        for asker in [(A, 1), (A, 2), (B, 1)] {
            assert_eq!(keeper.find("x", asker), []);
        }
        assert_eq!(keeper.find("y", (B, 2)), []);
        let mut replies = keeper.publish("x", (B, 3));
        assert_eq!(replies.remove(0), ((B, 3), Reply::Published));
        replies.sort_by_key(|(asker, _)| *asker);
        let found = |asker| (asker, Reply::Found(handle()));
        assert_eq!(replies, [(A, 1), (A, 2), (B, 1)].map(found));
        assert_eq!(keeper.find("x", (A, 4)), [found((A, 4))]);
        assert_eq!(keeper.publish("x", (A, 5)), [((A, 5), Reply::NameTaken)]);
    }

    #[test]
    fn lookups_that_wait_are_so_many_for_each_node_and_the_oldest_gives_way() {
        let keeper = Keeper::default();
        assert_eq!(keeper.find("of another", (B, 0)), []);
        for ticket in 0..LOOKUPS_MAX as u64 {
            assert_eq!(keeper.find(&format!("name {ticket}"), (A, ticket)), []);
        }
        for later in 0..1000 {
            let replies = keeper.find("again", (A, LOOKUPS_MAX as u64 + later));
            assert!(is_refused(&replies, (A, later)), "{replies:?}");
        }
        assert_eq!(keeper.names.lock().awaited[&A].len(), LOOKUPS_MAX);
        assert_eq!(keeper.publish("of another", (A, 0)).len(), 2);
    }

    #[test]
    fn names_that_are_kept_are_so_many_and_each_is_so_long() {
        let keeper = Keeper::default();
        for name in ["", &"n".repeat(NAME_LEN_MAX + 1)] {
            assert!(is_refused(&keeper.find(name, (A, 1)), (A, 1)));
            assert!(is_refused(&keeper.publish(name, (A, 2)), (A, 2)));
        }
        assert!(keeper.names.lock().awaited.is_empty());
        for number in 0..NAMES_MAX {
            assert_eq!(keeper.publish(&number.to_string(), (A, 3)), [((A, 3), Reply::Published)]);
        }
        assert!(is_refused(&keeper.publish("one more", (A, 4)), (A, 4)));
        assert_eq!(keeper.names.lock().published.len(), NAMES_MAX);
        assert_eq!(keeper.publish("0", (A, 5)), [((A, 5), Reply::NameTaken)]);
    }
}
