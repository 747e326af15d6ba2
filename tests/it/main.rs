//! Tests that need several nodes, each a process.

mod example;
mod failure;
mod job;
mod memory;
mod tidy;
