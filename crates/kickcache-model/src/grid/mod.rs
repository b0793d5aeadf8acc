//! Mixed loads on which kickcache must not be far behind the best of the other caches.

pub mod case;
pub mod figures;
pub mod set;
pub mod simulation;
pub mod verdict;
