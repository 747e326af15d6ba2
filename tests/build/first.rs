//! A program that shares a type with other nodes; `second.rs` is what it looked like later.

use std::process::ExitCode;

use pangea::Portable;

#[derive(Clone, Copy, Portable)]
#[repr(C)]
struct Sample {
    time: u32,
    value: u32,
}

fn main() -> ExitCode {
    pangea_tests::share(Sample { time: 1, value: 2 })
}
