//! The program of `first.rs` after somebody has sorted its fields.

use std::process::ExitCode;

use pangea::Portable;

#[derive(Clone, Copy, Portable)]
#[repr(C)]
struct Sample {
    value: u32,
    time: u32,
}

fn main() -> ExitCode {
    pangea_tests::share(Sample { time: 1, value: 2 })
}
