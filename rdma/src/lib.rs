//! Moving bytes between nodes, over whichever wire they share.
//!
//! A [`Fabric`] is one node's end of all the ways it reaches the others. Operations are data
//! ([`Request`]s are posted, [`Completion`]s are polled), memory is a [`Mapping`] that stays put,
//! and a node that died is an [`Error::PeerLost`], never a wait without end.
//!
//! Nodes of one host share memory ([`shm`]); those of several are reached by TCP, or by RDMA where
//! it was proven to work ([`verbs`]); [`Paths`] makes one fabric of all ways. Nodes find each other
//! through [`bootstrap`]. [`sim`] is a network in one process, with virtual time.

mod agent;
mod bell;
pub mod bootstrap;
mod cable;
mod choice;
#[cfg(all(test, not(loom)))]
mod conformance;
mod copy;
mod descriptor;
mod error;
mod fabric;
mod frames;
#[doc(hidden)]
pub mod fuzz;
pub mod link;
mod links;
mod mapping;
mod moment;
mod node;
mod packet;
mod paths;
mod prefetch;
mod primitive;
mod regions;
mod reliable;
mod reservation;
mod roster;
pub mod shm;
pub mod sim;
mod spin;
mod stream;
mod tcp;
mod turn;
pub mod verbs;
pub mod wait;
mod wires;

pub use choice::{Choice, PATH, Path, REQUIRE};
pub use copy::{copy_in, copy_out};
pub use error::{Error, Result};
pub use fabric::{
    Capabilities, Completion, Fabric, MESSAGE_LEN_MAX, MESSAGES_MAX, Op, PeerMemory, Presence,
    Region, RemoteAddr, Request, Token, Way,
};
pub(crate) use mapping::Pin;
pub use mapping::{Mapping, SharedObject, page_size};
pub use moment::Moment;
pub use node::NodeId;
pub use paths::Paths;
pub use reservation::Reservation;
