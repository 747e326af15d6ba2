//! The command, as a person uses it.

mod bad_input;
mod bench;
mod demo;
mod doctor;
mod failure;
mod hosts;
mod key;
mod llm;
mod pangea;
mod run;
