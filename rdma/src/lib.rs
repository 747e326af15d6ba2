//! Moving bytes between nodes, over whichever wire they share.
//!
//! A [`Fabric`] is one node's end of all the ways it reaches the others. Operations are data
//! ([`Request`]s are posted, [`Completion`]s are polled), memory is a [`Mapping`] that stays put,
//! and a node that died is an [`Error::PeerLost`], never a wait without end.
//!
//! There is one provider so far: [`shm`], for nodes on one host. They find each other through
//! [`bootstrap`].

pub mod bootstrap;
mod copy;
mod descriptor;
mod error;
mod fabric;
mod mapping;
mod node;
mod prefetch;
mod primitive;
mod reservation;
pub mod shm;
mod turn;
pub mod wait;

pub use copy::{copy_in, copy_out};
pub use error::{Error, Result};
pub use fabric::{
    Capabilities, Completion, Fabric, MESSAGE_LEN_MAX, Op, Presence, Region, RemoteAddr, Request,
    Token,
};
pub use mapping::{Mapping, SharedObject, page_size};
pub use node::NodeId;
pub use reservation::Reservation;
