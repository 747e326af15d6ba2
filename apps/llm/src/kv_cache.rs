//! kv_cache.
