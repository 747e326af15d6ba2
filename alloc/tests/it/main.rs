//! The allocator by its public interface: against a model, by several threads, and by the faults
//! that other allocators of its kind have had.

mod faults;
mod footprint;
mod model;
mod random;
mod shadow;
mod threads;
