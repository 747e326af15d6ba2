//! What can go wrong, by what the caller can do about it.

use std::{fmt, io, time::Duration};

use pangea_rdma::NodeId;

/// The result of this crate's fallible functions.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// Why something did not happen.
#[non_exhaustive]
pub enum Error {
    /// A node died or left: its data is gone, and nothing will come from it.
    PeerLost {
        /// Who is gone; of a node that left when another had died, the cause: who died.
        node: NodeId,
        /// The membership in which it was found gone.
        epoch: u64,
    },
    /// The time that was allowed ran out.
    TimedOut {
        /// What was waited for, and whose part is missing.
        waiting_for: String,
        /// How long.
        after: Duration,
    },
    /// A heap has no room.
    OutOfMemory {
        /// Whose heap.
        node: NodeId,
        /// Bytes asked for.
        wanted: u64,
        /// The longest run of bytes that is free.
        largest_free: u64,
        /// Bytes in the heap.
        capacity: u64,
    },
    /// What is to be fetched from other hosts does not fit the limit on fetched memory.
    CacheFull {
        /// Bytes to be fetched.
        wanted: u64,
        /// Bytes that were fetched and may be borrowed.
        held: u64,
        /// Bytes that may be held.
        limit: u64,
    },
    /// More was asked for than any address space holds.
    TooLarge {
        /// Elements asked for.
        len: usize,
        /// Bytes of an element.
        size: usize,
    },
    /// Elements outside the vector were named.
    OutOfBounds {
        /// The first element named.
        start: usize,
        /// The element after the last one named.
        end: usize,
        /// Elements in the vector.
        len: usize,
    },
    /// The elements named live on several nodes, and no slice reaches over them: ask for the parts
    /// one by one.
    NotContiguous {
        /// The first element named.
        start: usize,
        /// The element after the last one of the same part.
        part_end: usize,
    },
    /// The vector was published, so that others may write it: freeze it before it is published.
    Published,
    /// The name is taken.
    NameTaken {
        /// The name.
        name: String,
    },
    /// What is published under the name is of another type.
    TypeMismatch {
        /// The name.
        name: String,
        /// What was asked for.
        wanted: String,
        /// What is there.
        found: String,
    },
    /// What is published under the name is of a type of the same name, whose fields are others, or
    /// lie elsewhere: the nodes were built from different sources.
    LayoutMismatch {
        /// The name.
        name: String,
        /// What was asked for.
        wanted: String,
        /// What is there.
        found: String,
    },
    /// A setting or an argument is out of its range.
    Config {
        /// The setting.
        field: &'static str,
        /// What was found, the rule it breaks, the remedy.
        reason: String,
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
    /// The operating system refused a call.
    Os {
        /// The call, with what it was for.
        call: &'static str,
        /// Its answer.
        source: io::Error,
    },
}

impl Error {
    /// Turns the refusal of `call` into an error.
    pub(crate) fn os(call: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Os { call, source }
    }
}

impl From<pangea_rdma::Error> for Error {
    fn from(error: pangea_rdma::Error) -> Self {
        use pangea_rdma::Error as E;
        match error {
            E::PeerLost { node, epoch } => Self::PeerLost { node, epoch },
            E::TimedOut { waiting_for, after } => Self::TimedOut { waiting_for, after },
            E::Config { field, reason } => Self::Config { field, reason },
            E::JoinFailed { reason } => Self::JoinFailed { reason },
            E::Protocol { reason } => Self::Protocol { reason },
            E::Os { call, source } => Self::Os { call, source },
            other => Self::Protocol { reason: other.to_string() },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerLost { node, epoch } => write!(f, "{node} was lost (epoch {epoch})"),
            Self::TimedOut { waiting_for, after } => {
                write!(f, "gave up waiting for {waiting_for} after {after:.1?}")
            }
            Self::OutOfMemory { node, wanted, largest_free, capacity } => write!(
                f,
                "the heap of {node} has no room for {wanted} bytes: {} are missing; its capacity \
                 is {capacity} bytes, the longest free run {largest_free}; raise \
                 PANGEA_HEAP, as far as the memory goes, or use more nodes",
                wanted.saturating_sub(*largest_free)
            ),
            Self::CacheFull { wanted, held, limit } => write!(
                f,
                "cannot fetch {wanted} bytes from other hosts: {held} of {limit} are held by \
                 slices; drop or release some vectors, or set PANGEA_CACHE higher"
            ),
            Self::TooLarge { len, size } => {
                write!(f, "{len} elements of {size} bytes are more than an address space holds")
            }
            Self::OutOfBounds { start, end, len } => {
                write!(f, "elements {start}..{end} are outside the {len} that are there")
            }
            Self::NotContiguous { start, part_end } => write!(
                f,
                "the elements from {start} on live on several nodes; a slice may end at {part_end}"
            ),
            Self::Published => f.write_str(
                "the vector was published and others may write it; freeze it before that",
            ),
            Self::NameTaken { name } => write!(f, "the name '{name}' is taken"),
            Self::TypeMismatch { name, wanted, found } => {
                write!(f, "'{name}' is {found}, not {wanted}")
            }
            Self::LayoutMismatch { name, wanted, found } => write!(
                f,
                "'{name}' is {found} with another layout than {wanted} has here; build all nodes \
                 from the same source"
            ),
            Self::Config { field, reason } => write!(f, "{field}: {reason}"),
            Self::JoinFailed { reason } => write!(f, "cannot join the cluster: {reason}"),
            Self::Protocol { reason } => write!(f, "protocol error: {reason}"),
            Self::Os { call, source } if source.raw_os_error() == Some(libc::EMFILE) => {
                write!(f, "{call} failed, as the limit on open files (ulimit -n) is too low")
            }
            Self::Os { call, .. } => write!(f, "{call} failed"),
        }
    }
}

/// As for people: this is what `fn main() -> pangea::Result` prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        match self {
            Self::Os { source, .. } => write!(f, ": {source}"),
            _ => Ok(()),
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
