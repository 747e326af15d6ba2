//! Derive macro of pangea::Portable.
