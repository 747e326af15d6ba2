//! What each host of a job is to start.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    iter,
    net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs},
    path::PathBuf,
};

use pangea::{NodeId, launch::Place};

use super::{
    file::{Entry, HostFile},
    message::HostJob,
    remote::is_here,
};
use crate::{
    failure::{Failure, Result},
    job::{print_ways, this_program},
};

/// What is set for each node by its launcher, or matters to the launcher alone.
const NOT_PASSED_ON: [&str; 8] = [
    "PANGEA_COORDINATOR",
    "PANGEA_JOB",
    "PANGEA_KEY",
    "PANGEA_KEY_FILE",
    "PANGEA_NODE",
    "PANGEA_NODES",
    "PANGEA_RENDEZVOUS",
    "PANGEA_SSH",
];

/// A job of several hosts, before it is started.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Where its nodes run, with variables for all of them.
    pub(crate) file: HostFile,
    pub(crate) nodes_per_entry: u16,
    /// The program and its arguments.
    pub(crate) program: Vec<OsString>,
    /// Where it starts.
    pub(crate) directory: PathBuf,
    /// Where this program is on other hosts, if not where it is here.
    pub(crate) pangea: Option<PathBuf>,
    /// Where the nodes meet, if it is said.
    pub(crate) coordinator: Option<String>,
}

impl Plan {
    /// The entry of each node.
    fn entries(&self) -> Vec<&Entry> {
        let repeat = |entry| iter::repeat_n(entry, usize::from(self.nodes_per_entry));
        self.file.entries.iter().flat_map(repeat).collect()
    }

    /// Where the nodes meet: where it is said, else at the first address that this host has among
    /// the others, else at all that it has.
    pub(super) fn place(&self) -> Result<Place> {
        let entries = self.entries();
        let nodes = u16::try_from(entries.len()).unwrap_or(u16::MAX);
        let is_alone = entries.iter().all(|entry| is_here(&entry.ssh));
        let here = entries.iter().find(|entry| is_here(&entry.ssh) && !entry.ips.is_empty());
        let address = match (&self.coordinator, here) {
            (Some(address), _) => resolve(address)?,
            (None, Some(entry)) => resolve(&entry.ips[0])?,
            (None, None) if is_alone => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            (None, None) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        };
        Ok(Place::network(&[address], nodes)?.telling(print_ways()))
    }

    /// What each host is to start, by the host's name.
    pub(super) fn jobs(&self, place: &Place) -> Result<BTreeMap<String, HostJob>> {
        let program = self.program.iter().map(text).collect::<Result<Vec<_>>>()?;
        let mut common = passed_on()?;
        common.extend(self.file.envs.clone());
        let mut jobs: BTreeMap<String, HostJob> = BTreeMap::new();
        for (node, entry) in NodeId::all(place.nodes()).zip(self.entries()) {
            let mut environment = common.clone();
            environment.extend(own(entry));
            for (name, value) in place.environment(node) {
                environment.insert(name.to_owned(), text(&value)?);
            }
            let job = jobs.entry(entry.ssh.clone()).or_insert_with(|| HostJob {
                program: program.clone(),
                directory: self.directory.clone(),
                nodes: BTreeMap::new(),
            });
            job.nodes.insert(node.number(), environment);
        }
        Ok(jobs)
    }

    /// Where this program is on the host `name`.
    pub(super) fn pangea_on(&self, name: &str) -> Result<PathBuf> {
        match &self.pangea {
            Some(path) if !is_here(name) => Ok(path.clone()),
            _ => this_program(),
        }
    }
}

/// What is set here for Pangea, and is to be set everywhere.
fn passed_on() -> Result<BTreeMap<String, String>> {
    let mut environment = BTreeMap::new();
    for (name, value) in env::vars_os() {
        let Some(name) = name.to_str().filter(|name| name.starts_with("PANGEA_")) else { continue };
        if !NOT_PASSED_ON.contains(&name) {
            environment.insert(name.to_owned(), text(&value)?);
        }
    }
    Ok(environment)
}

/// The address that `text` names: an IP or a host name, with or without a port.
fn resolve(text: &str) -> Result<SocketAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, 0));
    }
    let has_port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let found = if has_port { text.to_socket_addrs() } else { (text, 0).to_socket_addrs() };
    let wrong = |why: String| Failure::usage(format!("the coordinator's address {text}: {why}"));
    let address = found.map_err(|error| wrong(error.to_string()))?.next();
    address.ok_or_else(|| wrong("no such host".to_owned()))
}

/// What an entry says of its node: where it listens, and which devices lead to each node: those of
/// one by `+`, the nodes by commas.
fn own(entry: &Entry) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    if !entry.ips.is_empty() {
        variables.push(("PANGEA_ADDRESSES".to_owned(), entry.ips.join(",")));
    }
    if !entry.rdma.is_empty() {
        let devices: Vec<String> = entry.rdma.iter().map(|devices| devices.join("+")).collect();
        variables.push(("PANGEA_RDMA".to_owned(), devices.join(",")));
    }
    variables
}

/// What is passed on to other hosts is text.
fn text(value: &OsString) -> Result<String> {
    let text = value.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::usage(format!("{} is not UTF-8", value.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_says_where_its_node_listens_and_by_which_devices_it_is_reached() {
        let entry = Entry {
            ssh: "a".to_owned(),
            ips: vec!["10.0.0.1".to_owned(), "10.1.0.1".to_owned()],
            rdma: vec![vec![], vec!["rdma_en2".to_owned(), "rdma_en3".to_owned()]],
        };
        let variables = own(&entry);
        assert_eq!(variables[0].1, "10.0.0.1,10.1.0.1");
        assert_eq!(variables[1].1, ",rdma_en2+rdma_en3");
        assert!(own(&Entry::default()).is_empty());
    }

    #[test]
    fn a_coordinator_is_an_address_or_a_name_with_or_without_a_port() {
        for (text, address) in [
            ("10.0.0.1", "10.0.0.1:0"),
            ("10.0.0.1:70", "10.0.0.1:70"),
            ("::1", "[::1]:0"),
            ("[::1]:70", "[::1]:70"),
        ] {
            assert_eq!(resolve(text).unwrap(), address.parse().unwrap(), "{text}");
        }
        assert!(resolve("localhost:70").unwrap().ip().is_loopback());
        assert!(resolve("no such host.invalid").is_err());
    }
}
