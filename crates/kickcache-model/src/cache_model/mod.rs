//! Models of the alternatives to kickcache: no cache at all, the caches of Linux, and reference policies; and the
//! choice of a cache by name.

pub mod bare;
pub mod bcache;
pub mod block_state;
pub mod by_chance;
pub mod cache_kind;
pub mod dm_cache;
pub mod lru;
pub mod optimal;
mod parts;
