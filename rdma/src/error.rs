//! What can go wrong, by what the caller can do about it.

use std::{fmt, io, time::Duration};

use crate::NodeId;

/// The result of this crate's fallible functions.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// Why an operation did not happen.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The node died or left; nothing posted to it will complete.
    PeerLost {
        /// Who is gone.
        node: NodeId,
        /// The membership in which it was found gone.
        epoch: u64,
    },
    /// The time that was allowed ran out.
    TimedOut {
        /// What was waited for.
        waiting_for: String,
        /// How long.
        after: Duration,
    },
    /// The range lies outside the memory it names.
    OutOfBounds {
        /// Where the range begins, in bytes.
        offset: u64,
        /// Its length, in bytes.
        len: u64,
        /// Bytes that are there.
        capacity: u64,
    },
    /// A word's offset is not a multiple of its size.
    Unaligned {
        /// The offset, in bytes.
        offset: u64,
        /// What it must be a multiple of.
        align: u64,
    },
    /// There is no such region at that node.
    UnknownRegion {
        /// The node asked.
        node: NodeId,
        /// The region named.
        region: u32,
    },
    /// The nodes were not brought together.
    JoinFailed {
        /// What happened.
        reason: String,
    },
    /// A peer, or somebody who claims to be one, said something that the protocol does not allow.
    Protocol {
        /// What it was, and what was expected.
        reason: String,
    },
    /// An argument or an environment variable is out of its range.
    Config {
        /// The setting.
        field: &'static str,
        /// What was found, the rule it breaks, the remedy.
        reason: String,
    },
    /// An RDMA device, or its library, does not do what was asked; another path may.
    Device {
        /// The device.
        device: String,
        /// The call, or what it was for.
        call: &'static str,
        /// Its answer, the likely cause, the remedy.
        reason: String,
    },
    /// The operating system refused a call.
    Os {
        /// The call, with what it was for.
        call: &'static str,
        /// Its answer.
        source: io::Error,
    },
}

impl Error {
    /// The operating system's last answer to this thread, which was a refusal of `call`.
    pub(crate) fn last_os(call: &'static str) -> Self {
        Self::Os { call, source: io::Error::last_os_error() }
    }

    /// Turns the refusal of `call` into an error.
    pub(crate) fn os(call: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Os { call, source }
    }

    /// A breach of the protocol.
    pub(crate) fn protocol(reason: impl Into<String>) -> Self {
        Self::Protocol { reason: reason.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerLost { node, epoch } => write!(f, "{node} was lost (epoch {epoch})"),
            Self::TimedOut { waiting_for, after } => {
                write!(f, "gave up waiting for {waiting_for} after {after:.1?}")
            }
            Self::OutOfBounds { offset, len, capacity } => {
                write!(
                    f,
                    "bytes {offset}..{offset}+{len} are outside the {capacity} that are there"
                )
            }
            Self::Unaligned { offset, align } => {
                write!(f, "offset {offset} is not a multiple of {align}")
            }
            Self::UnknownRegion { node, region } => write!(f, "{node} has no region {region}"),
            Self::JoinFailed { reason } => write!(f, "cannot join the cluster: {reason}"),
            Self::Protocol { reason } => write!(f, "protocol error: {reason}"),
            Self::Config { field, reason } => write!(f, "{field}: {reason}"),
            Self::Device { device, call, reason } => write!(f, "{device}: {call}: {reason}"),
            Self::Os { call, source } if source.raw_os_error() == Some(libc::EMFILE) => {
                write!(f, "{call} failed, as the limit on open files (ulimit -n) is too low")
            }
            Self::Os { call, .. } => write!(f, "{call} failed"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Os { source, .. } => Some(source),
            _ => None,
        }
    }
}
