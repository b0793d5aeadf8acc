//! Mixed loads on which kickcache must not be far behind the best of the other caches.
//!
//! [`set`] reads the cases, [`case`] is one of them, [`simulation`] runs a cache on it, [`figures`] are the results that are
//! compared, and [`verdict`] compares them.

pub mod case;
pub mod figures;
pub mod set;
pub mod simulation;
pub mod verdict;
