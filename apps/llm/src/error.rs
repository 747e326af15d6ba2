//! What can go wrong, by what the reader of the message can do about it.

use std::{fmt, io, path::PathBuf};

/// The result of this crate's fallible functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a model could not be loaded or run.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened or read.
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file is damaged or not what it claims to be.
    Malformed {
        /// The field, key or tensor at fault, with its place where that helps.
        field: String,
        /// What was found, and the rule it breaks.
        reason: String,
    },
    /// The file is sound, but asks for something this program cannot do.
    Unsupported {
        /// The key, tensors or feature.
        field: String,
        /// What was found, and what is supported.
        reason: String,
    },
    /// An argument of the request is out of its range.
    Argument {
        /// The argument's name.
        field: &'static str,
        /// What was given, and the rule it breaks.
        reason: String,
    },
    /// The cluster failed: a heap has no room, or a node is lost.
    Cluster(pangea::Error),
    /// The text could not be handed on.
    Output(io::Error),
}

impl From<pangea::Error> for Error {
    fn from(error: pangea::Error) -> Self {
        Self::Cluster(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => write!(f, "cannot read {}", path.display()),
            Self::Malformed { field, reason } => write!(f, "malformed model: {field}: {reason}"),
            Self::Unsupported { field, reason } => write!(f, "unsupported: {field}: {reason}"),
            Self::Argument { field, reason } => write!(f, "{field}: {reason}"),
            Self::Cluster(error) => error.fmt(f),
            Self::Output(_) => f.write_str("cannot write the text"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } | Self::Output(source) => Some(source),
            Self::Cluster(error) => error.source(),
            _ => None,
        }
    }
}
