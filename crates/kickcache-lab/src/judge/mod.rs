//! `judge`: is a command worse than another one, by more than a margin?
//!
//! The known-good command and the new one run in pairs whose order a coin decides, until there is a verdict, or none is
//! possible. Modules:
//! * the sequential test and its error bound are [`kickcache_model::statistics::sequential`];
//! * [`metric`]: the number that a run gives;
//! * the other modules run commands and report the results.
//!
//! Invariants: a failure on the known-good side ends a bisection, because it does not depend on the commit.

pub mod command;
pub mod failure;
pub mod measure;
pub mod metric;
pub(crate) mod numbers;
pub mod process;
pub mod progress;
pub mod report;
pub mod rounds;
pub mod side;
pub mod stored_result;
