//! What a launcher has put into the environment: Pangea's own, Open MPI's, MPICH's or Slurm's.
//!
//! `PANGEA_NODE` and `PANGEA_NODES` come before what others say. A process that is one of several
//! by its environment, and finds no way to the others, is an error, never a cluster of one.

mod slurm;

use std::{env, ffi::OsString, fmt, os::unix::process::parent_id, path::Path};

use super::{
    Invitation, Job, Key,
    hosts::{self, COORDINATOR},
    key::{KEY, KEY_FILE},
    local::{self, NODE, NODES, NODES_MAX},
};
use crate::{Error, NodeId, Result};

/// The variables that a launcher sets for each of its processes.
#[derive(Debug)]
struct Launcher {
    rank: &'static str,
    size: &'static str,
    // How many of the processes are on this host.
    local_size: &'static str,
    // One of those names the job.
    identities: &'static [&'static str],
}

const LAUNCHERS: [Launcher; 3] = [
    Launcher {
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local_size: "OMPI_COMM_WORLD_LOCAL_SIZE",
        identities: &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"],
    },
    Launcher {
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        local_size: "MPI_LOCALNRANKS",
        // Its proxy, of which each host has one, is the parent of all.
        identities: &[],
    },
    Launcher {
        rank: "PMIX_RANK",
        size: "PMIX_SIZE",
        local_size: "PMIX_LOCAL_SIZE",
        identities: &["PMIX_NAMESPACE"],
    },
];

/// Environment variables, those of this process or of a test.
pub(super) struct Environment<'a> {
    get: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Environment<'static> {
    pub(super) fn of_process() -> Self {
        Self::new(&|name| env::var_os(name))
    }
}

impl<'a> Environment<'a> {
    /// The variables that `get` knows.
    pub(super) fn new(get: &'a dyn Fn(&str) -> Option<OsString>) -> Self {
        Self { get }
    }

    /// What `field` says; `None` where it is missing or empty.
    pub(super) fn text(&self, field: &'static str) -> Result<Option<String>> {
        let Some(text) = (self.get)(field).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let text = text.into_string();
        text.map(Some).map_err(|_| Error::Config { field, reason: "not UTF-8".to_owned() })
    }

    /// Whether `field` is set to 1.
    pub(super) fn flag(&self, field: &'static str) -> Result<Option<bool>> {
        match self.text(field)?.as_deref() {
            None => Ok(None),
            Some("0") => Ok(Some(false)),
            Some("1") => Ok(Some(true)),
            Some(other) => {
                let reason = format!("'{other}' is neither 0 nor 1");
                Err(Error::Config { field, reason })
            }
        }
    }

    /// The key that this process was given, itself or in a file.
    pub(super) fn key(&self) -> Result<Option<Key>> {
        if let Some(text) = self.text(KEY)? {
            return Key::from_hex(&text).map(Some);
        }
        let file = (self.get)(KEY_FILE).filter(|path| !path.is_empty());
        file.map(|path| Key::from_file(Path::new(&path))).transpose()
    }

    /// Which node of how many this process is; `None` where nobody says so.
    pub(super) fn part(&self) -> Result<Option<(NodeId, u16)>> {
        let (rank, size) = match self.launched()? {
            Some(launched) => (Some(launched.rank), Some(launched.size)),
            None => (None, None),
        };
        let node = self.number(NODE)?.or(rank);
        let nodes = self.number(NODES)?.or(size);
        let (node, nodes) = match (node, nodes) {
            (None, None) => return Ok(None),
            (Some(node), Some(nodes)) => (node, nodes),
            (Some(node), None) => {
                let reason = format!("missing, but this process is node {node}");
                return Err(Error::Config { field: NODES, reason });
            }
            (None, Some(nodes)) => {
                let reason = format!("missing, but there are to be {nodes} nodes");
                return Err(Error::Config { field: NODE, reason });
            }
        };
        if nodes == 0 || nodes > NODES_MAX || node >= nodes {
            let reason =
                format!("{node} of {nodes} nodes; it is less than their number, 1 to {NODES_MAX}");
            return Err(Error::Config { field: NODE, reason });
        }
        Ok(Some((NodeId::new(node), nodes)))
    }

    fn number(&self, field: &'static str) -> Result<Option<u16>> {
        let Some(text) = self.text(field)? else { return Ok(None) };
        text.trim().parse().map(Some).map_err(|_| Error::Config {
            field,
            reason: format!("'{text}' is no number from 0 to {}", u16::MAX),
        })
    }

    /// What a launcher says of this process.
    fn launched(&self) -> Result<Option<Launched>> {
        for launcher in &LAUNCHERS {
            let Some(rank) = self.number(launcher.rank)? else { continue };
            let Some(size) = self.number(launcher.size)?.or(self.number(NODES)?) else {
                let reason = format!("missing beside {}, and so is {NODES}", launcher.rank);
                return Err(Error::Config { field: launcher.size, reason });
            };
            let is_local = size == 1 || self.number(launcher.local_size)? == Some(size);
            let mut identity = None;
            for name in launcher.identities {
                identity = identity.or(self.text(name)?);
            }
            let identity = identity.unwrap_or_else(|| format!("parent {}", parent_id()));
            return Ok(Some(Launched { rank, size, identity, meets: Meets::at_a_file(is_local) }));
        }
        self.slurm()
    }
}

/// What a launcher says of a process.
#[derive(Debug)]
struct Launched {
    rank: u16,
    size: u16,
    // The same for all processes of the job, and for no other at the same time.
    identity: String,
    meets: Meets,
}

/// How the processes of a launcher may find each other.
#[derive(Debug)]
enum Meets {
    /// All are on this host.
    Here,
    /// At this `host:port`.
    At(String),
    /// The launcher does not say.
    Unknown,
}

impl Meets {
    fn at_a_file(is_local: bool) -> Self {
        if is_local { Self::Here } else { Self::Unknown }
    }
}

/// Where this process is to meet the others; `None` where there are none.
pub(super) fn invitation(environment: &Environment<'_>) -> Result<Option<Invitation>> {
    if let Some(invitation) = hosts::Invitation::read(environment)? {
        return Ok(Some(Invitation::Hosts(invitation)));
    }
    let Some((node, nodes)) = environment.part()? else { return Ok(None) };
    if nodes == 1 {
        return Ok(None);
    }
    let Some(launched) = environment.launched()? else {
        let reason = format!("set, but neither a launcher nor {COORDINATOR} says where to meet");
        return Err(Error::Config { field: NODE, reason });
    };
    let job = Job::named(&launched.identity);
    match launched.meets {
        Meets::Here => {
            let invitation = local::Invitation::without_launcher(job, node, nodes);
            Ok(Some(Invitation::Local(invitation)))
        }
        Meets::At(place) => {
            let invitation = hosts::Invitation::new(environment, &place, job, (node, nodes))?;
            Ok(Some(Invitation::Hosts(invitation)))
        }
        Meets::Unknown => {
            let reason = format!(
                "missing: this is {node} of {nodes} on several hosts; set it to HOST:PORT, where \
                 HOST is that of node 0 and PORT is free there"
            );
            Err(Error::Config { field: COORDINATOR, reason })
        }
    }
}

impl fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
