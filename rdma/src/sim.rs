//! A network in one process, with virtual time and a seed.
//!
//! What happens follows from the seed alone: a run that fails is run again, step by step. A
//! [`Model`] says how long frames take, [`Faults`] what befalls them, and the test itself cuts
//! cables, pauses nodes and lets them crash.
//!
//! A [`Network`] carries frames; a [`Cluster`] is nodes that are joined by one. A [`Fabric`] is one
//! of these nodes, for programs that wait and have threads: what these do follows from no seed.

mod cable;
mod clock;
mod cluster;
mod fabric;
mod live;
mod model;
mod network;
mod node;
mod occasion;
mod pace;
mod random;

pub use self::{
    clock::Clock,
    cluster::Cluster,
    fabric::Fabric,
    model::Model,
    network::{Event, Faults, Network},
    random::Random,
};
