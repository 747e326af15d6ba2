//! What the two ends of a connection tell each other.

use std::{fmt, io, str::FromStr};

use pangea_rdma::verbs::sys::ibv_gid;

use crate::machine::{Machine, Pair};

/// Where a queue pair is: its number, and its port's GID.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    number: u32,
    gid: u128,
}

impl Address {
    pub(crate) fn of(machine: &Machine, pair: &Pair<'_>) -> Self {
        Self { number: pair.number(), gid: u128::from_be_bytes(machine.gid(1).raw) }
    }

    /// Connects `pair` to the one that is here.
    pub(crate) fn connect(self, pair: &Pair<'_>) -> io::Result<()> {
        pair.connect(ibv_gid { raw: self.gid.to_be_bytes() }, self.number)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number, self.gid)
    }
}

impl FromStr for Address {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        let bad = || io::Error::other(format!("`{text}` is no address of a queue pair"));
        let (number, gid) = text.trim().split_once(' ').ok_or_else(bad)?;
        let number = number.parse().map_err(|_| bad())?;
        Ok(Self { number, gid: gid.parse().map_err(|_| bad())? })
    }
}
