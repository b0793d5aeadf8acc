//! kickcache: serve a cached disk, look at it, try it.

pub mod export;
