//! Tests that need several nodes.
