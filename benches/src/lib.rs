//! Benchmarks, each printed beside its bound.
