//! One address space over many nodes.
