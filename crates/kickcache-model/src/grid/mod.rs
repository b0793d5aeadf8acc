//! Loads on which kickcache is compared with other caches.

pub mod case;
pub mod figures;
pub mod set;
pub mod simulation;
pub mod verdict;
