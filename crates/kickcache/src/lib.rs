//! kickcache: serve a cached disk, look at it, try it.

pub mod driver;
pub mod export;
pub mod serve;
