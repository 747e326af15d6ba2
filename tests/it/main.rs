//! Tests that need several nodes, each a process.

mod builds;
mod cables;
mod chaos;
mod example;
mod failure;
mod fuzz;
mod hosts;
mod job;
mod losses;
mod memory;
mod teardown;
mod tidy;
