//! Dividing a heap: sizes and offsets, no nodes, no wire.
