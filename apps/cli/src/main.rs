//! The command `pangea`: run, demo, bench, llm.

fn main() {}
