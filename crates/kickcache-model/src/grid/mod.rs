//! Mixed loads on which kickcache must not be far behind the best of the other caches.
//!
//! [`set`] reads the cases, [`case`] is a load with its devices, [`simulation`] runs a cache on a case, [`figures`] are the
//! results, and [`verdict`] compares the results of several caches.

pub mod case;
pub mod figures;
pub mod set;
pub mod simulation;
pub mod verdict;
