//! Which ways to its peers a node may take.

use std::{env, fmt};

use crate::{Error, NodeId, Result};

/// The way to take: `PANGEA_PATH`.
pub const PATH: &str = "PANGEA_PATH";
/// What must not be done without: `PANGEA_REQUIRE`.
pub const REQUIRE: &str = "PANGEA_REQUIRE";

/// A way to a peer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Path {
    /// The fastest there is.
    #[default]
    Auto,
    /// Shared memory, on one host.
    Shm,
    /// TCP, even on one host.
    Tcp,
    /// RDMA: InfiniBand, RoCE, Thunderbolt.
    Verbs,
}

impl Path {
    const ALL: [(&str, Self); 4] =
        [("auto", Self::Auto), ("shm", Self::Shm), ("tcp", Self::Tcp), ("verbs", Self::Verbs)];
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, path)| path == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl std::str::FromStr for Path {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        let found = found.map(|(_, path)| *path);
        found.ok_or_else(|| format!("'{text}' is none of auto, shm, tcp, verbs"))
    }
}

/// Which ways a node may take to its peers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Choice {
    /// The way to take to every peer; [`Path::Auto`] leaves it to each pair.
    pub path: Path,
    /// Hosts that are reached without RDMA are an error.
    pub requires_rdma: bool,
}

impl Choice {
    /// What the environment says.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] where a variable has a value that there is not.
    pub fn from_env() -> Result<Self> {
        let variable = |name| env::var(name).ok().filter(|text| !text.is_empty());
        let reject = |field| move |reason| Error::Config { field, reason };
        let path = variable(PATH).map_or(Ok(Path::Auto), |text| text.parse());
        let requires_rdma = match variable(REQUIRE).as_deref() {
            None => Ok(false),
            Some("rdma") => Ok(true),
            Some(other) => Err(format!("'{other}' is not rdma, which alone can be required")),
        };
        Ok(Self {
            path: path.map_err(reject(PATH))?,
            requires_rdma: requires_rdma.map_err(reject(REQUIRE))?,
        })
    }

    /// Whether nodes of one host may share memory.
    pub fn allows_shm(self) -> bool {
        matches!(self.path, Path::Auto | Path::Shm)
    }

    /// That `peer` cannot be reached as was chosen, because of `why`.
    pub(crate) fn refuse(self, peer: NodeId, why: &str) -> Error {
        let (field, chosen) = match self.path {
            Path::Auto => (REQUIRE, "rdma".to_owned()),
            path => (PATH, path.to_string()),
        };
        let reason = format!("{peer} cannot be reached by '{chosen}': {why}");
        Error::Config { field, reason }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ways_are_called_what_they_print() {
        for (name, path) in Path::ALL {
            assert_eq!(name.parse(), Ok(path));
            assert_eq!(path.to_string(), name);
        }
        assert_eq!("udp".parse::<Path>().unwrap_err(), "'udp' is none of auto, shm, tcp, verbs");
    }
}
