//! Moving bytes between nodes, over whichever wire they share.
