//! sampler.
