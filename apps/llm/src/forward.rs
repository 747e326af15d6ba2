//! forward.
