//! Where the nodes of a job meet.

use std::{
    env,
    ffi::OsString,
    net::SocketAddr,
    path::Path,
    sync::mpsc::Sender,
    time::{Duration, Instant},
};

use pangea_rdma::{
    NodeId,
    bootstrap::{self, Key, Lifelines, hosts::Coordinator, local::Rendezvous},
};

use crate::{Error, Result};

/// How long nodes may take to say by which ways they reach each other.
const WAYS: Duration = Duration::from_secs(15);

/// Where the nodes of a job meet; made before they are started, as each is told of it.
#[derive(Debug)]
pub struct Place {
    kind: Kind,
    nodes: u16,
    // Gets the ways that the nodes have found.
    ways: Option<Sender<String>>,
}

#[derive(Debug)]
enum Kind {
    /// A socket in a private folder.
    Local(Rendezvous),
    /// Whoever has the key may come.
    Network(Coordinator),
}

impl Place {
    /// A place on this host, for `nodes` nodes that share its memory.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] where a host cannot have so many, or has no folder for it.
    pub fn local(nodes: u16) -> Result<Self> {
        Ok(Self { kind: Kind::Local(Rendezvous::new(nodes)?), nodes, ways: None })
    }

    /// A place at `addresses`, for `nodes` nodes that may run on other hosts. One without an IP
    /// stands for all of this host, one without a port gets one that is free. The nodes get the key
    /// that this process was given (`PANGEA_KEY`, `PANGEA_KEY_FILE`), else a new one.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] where a job cannot have so many nodes, where an address is not one of this
    /// host, and where the key is none.
    pub fn network(addresses: &[SocketAddr], nodes: u16) -> Result<Self> {
        let key = Some(given_key()?.map_or_else(Key::random, Ok)?);
        let coordinator = Coordinator::bind(addresses, nodes, key, bootstrap::Job::random()?)?;
        Ok(Self { kind: Kind::Network(coordinator), nodes, ways: None })
    }

    /// Sends to `ways`, once the nodes of a [`network`](Self::network) have met, a line for every
    /// two nodes: how the first reaches the second, and why so.
    #[must_use]
    pub fn telling(self, ways: Sender<String>) -> Self {
        Self { ways: Some(ways), ..self }
    }

    /// How many nodes meet.
    pub fn nodes(&self) -> u16 {
        self.nodes
    }

    /// The environment variables that tell the process of `node` where to go, and who it is. They
    /// may hold a key: they are not to be shown.
    pub fn environment(&self, node: NodeId) -> Vec<(&'static str, OsString)> {
        match &self.kind {
            Kind::Local(rendezvous) => rendezvous.environment(node).into(),
            Kind::Network(coordinator) => coordinator.environment(node),
        }
    }

    /// Brings the nodes together; `None` where `is_off` said that there will be no meeting.
    pub(super) fn serve(
        self,
        deadline: Instant,
        is_off: &dyn Fn() -> bool,
    ) -> pangea_rdma::Result<Option<Lifelines>> {
        let coordinator = match self.kind {
            Kind::Local(rendezvous) => return rendezvous.serve(deadline, is_off),
            Kind::Network(coordinator) => coordinator,
        };
        let lifelines = coordinator.serve(deadline, is_off)?;
        if let (Some(lifelines), Some(ways)) = (&lifelines, self.ways) {
            for (_, lines) in lifelines.take_ways(deadline.min(Instant::now() + WAYS)) {
                // Who does not listen any more need not know.
                _ = lines.lines().try_for_each(|line| ways.send(line.to_owned()));
            }
        }
        Ok(lifelines)
    }
}

/// The key that this process was given, itself or in a file.
fn given_key() -> Result<Option<Key>> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(text) = set(bootstrap::KEY) {
        let text = text
            .into_string()
            .map_err(|_| Error::Config { field: bootstrap::KEY, reason: "not UTF-8".to_owned() })?;
        return Ok(Some(Key::from_hex(&text)?));
    }
    let key = set(bootstrap::KEY_FILE).map(|path| Key::from_file(Path::new(&path)));
    Ok(key.transpose()?)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn nodes_are_told_where_to_go() {
        let names = |place: &Place| {
            let environment = place.environment(NodeId::new(1));
            environment.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert!(names(&Place::local(2).unwrap()).contains(&"PANGEA_RENDEZVOUS"));
        let network = Place::network(&[(Ipv4Addr::LOCALHOST, 0).into()], 2).unwrap();
        for name in ["PANGEA_COORDINATOR", "PANGEA_KEY", "PANGEA_JOB", "PANGEA_NODE"] {
            assert!(names(&network).contains(&name), "{name}");
        }
    }

    #[test]
    fn an_address_that_is_none_of_this_host_is_refused() {
        let address = "192.0.2.1:0".parse().unwrap();
        let error = Place::network(&[address], 2).unwrap_err();
        assert!(error.to_string().contains("192.0.2.1"), "{error}");
    }
}
