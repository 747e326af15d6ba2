//! detokenizer.
