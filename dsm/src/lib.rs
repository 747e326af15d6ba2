//! One address space over many nodes.
//!
//! Each node contributes a heap; every node sees every heap at the same addresses. What is
//! allocated is named by a handle, which can be published under a name and looked up by the others:
//!
//! ```
//! use pangea::{Cluster, Config, FrozenVec, Placement};
//!
//! let cluster = Cluster::join(Config::from_env()?)?;
//! if cluster.node().number() == 0 {
//!     let squares = cluster.vec::<u64>(1000, Placement::Here)?;
//!     for i in 0..1000 {
//!         squares.put(i, (i * i) as u64)?;
//!     }
//!     cluster.publish("squares", &squares.freeze()?)?;
//! }
//! let squares: FrozenVec<u64> = cluster.lookup("squares")?;
//! let sum: u64 = squares.slice(..)?.iter().sum();
//! assert_eq!(sum, 332_833_500);
//! cluster.barrier()?;
//! # Ok::<(), pangea::Error>(())
//! ```
//!
//! # Memory model, in a paragraph
//!
//! A [`GlobalVec`] is read and written word by word: an element whose type has 1, 2, 4 or 8 bytes,
//! and that alignment, is never torn, others may be; nothing is ordered except by atomics,
//! which are sequentially consistent, and by [`Cluster::barrier`], [`Cluster::publish`] and
//! [`Cluster::lookup`], which order all that was written before them. A [`FrozenVec`] never
//! changes, so that its elements are ordinary slices wherever they live. `docs/memory-model.md`
//! says it in full.
//!
//! # Failure
//!
//! A node that dies is an [`Error::PeerLost`] to whoever touches its data or waits for it, at once;
//! no wait is without a deadline ([`Config::timeout`]).

mod address_space;
mod allocation;
mod cache;
mod cluster;
mod config;
mod element;
mod error;
mod fetch;
mod frozen;
mod global_ptr;
mod handle;
mod join;
pub mod launch;
mod layout;
mod naming;
mod outbox;
mod portable;
mod progress;
mod sync;
mod ticket;
mod transfer;
mod vec;
mod wire;

pub use allocation::{Part, Placement};
pub use cluster::Cluster;
pub use config::{Config, parse_bytes};
pub use error::{Error, Result};
pub use frozen::FrozenVec;
pub use global_ptr::GlobalPtr;
pub use handle::Publish;
pub use layout::Layout;
pub use pangea_alloc::Statistics;
pub use pangea_derive::Portable;
pub use pangea_rdma::{Choice, NodeId, Path, Way, verbs::teardown, wait::cores};
pub use portable::{Portable, Word};
pub use vec::GlobalVec;

// The derive of `Portable` names this crate from outside; so do its tests.
#[cfg(test)]
extern crate self as pangea;

/// What the derive of [`Portable`] writes into the programs of others.
#[doc(hidden)]
pub mod __private {
    pub use linkme;

    pub use crate::layout::{Shared, TYPES};
}
