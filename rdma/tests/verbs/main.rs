//! Connections on real devices: soft-RoCE in a virtual machine, or what this machine has.
//!
//! Without a device nothing is tested, and it is said so; with `PANGEA_TEST_VERBS=1` that is a
//! failure.

mod devices;
mod fixture;
mod processes;
mod rc;
mod uc;
