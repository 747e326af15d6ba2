//! The command, as a person uses it.

mod bad_input;
mod bench;
mod demo;
mod failure;
mod llm;
mod pangea;
mod run;
