//! Each habit of the hardware, seen through the C interface.

mod address;
mod devices;
mod events;
mod faults;
mod habits;
mod lab;
mod limits;
mod machine;
mod messages;
mod processes;
mod runtime;
mod setup;
mod verbs;
