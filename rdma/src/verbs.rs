//! InfiniBand, RoCE and RDMA over Thunderbolt, by their common C interface.
//!
//! The library is loaded at run time ([`Library`]). Each of its objects has a type here that holds
//! what it must not outlive, so that everything ends in the order that drivers want: queue pair,
//! completion queue, memory regions, protection domain, device. [`teardown()`] sees to it where
//! nothing is dropped.
//!
//! ```text
//! Library ◄── Device ──► Context ◄── Port ◄── ProtectionDomain ◄─┬─ MemoryRegion
//!                          ▲                                     └─ QueuePair
//!                          └───────────────── CompletionQueue ◄────────┘
//! ```

mod cells;
mod chain;
mod completion_queue;
mod device;
mod gid;
mod inbox;
mod ledger;
mod library;
mod memory_region;
mod port;
mod protection_domain;
mod queue_pair;
pub mod rc;
mod registry;
mod slabs;
mod status;
#[doc(hidden)]
pub mod sys;
mod teardown;
pub mod uc;

pub use completion_queue::{Batch, CompletionQueue, Ended};
pub use device::{Atomicity, Context, Device, Limits};
pub use gid::{Gid, Protocol};
pub use ledger::{Exhausted, Ledger, Resource};
pub use library::{LIBRARY_VARIABLE, Library};
pub use memory_region::{Access, MemoryRegion};
pub use port::{ENDPOINT_LEN, Endpoint, Port, Wire};
pub use protection_domain::ProtectionDomain;
pub use queue_pair::{Capacity, Kind, QueuePair};
pub use registry::Registry;
pub use status::Status;
pub(crate) use teardown::Held;
pub use teardown::teardown;
