//! `judge`: is a command worse than another one, by more than a margin? For people, and for `git bisect run`.
//!
//! The known-good command and the new one run in turns, in pairs whose order a coin decides, until the evidence is enough
//! for a verdict. Rooms:
//! * the sequential test and its error bound are [`kickcache_model::statistics::sequential`];
//! * [`metric`]: the number that a run gives;
//! * the others run commands and tell what was found.
//!
//! Invariants: what fails on the known-good side ends a bisection, for it says nothing about a commit; what fails on the new
//! side is a commit that cannot be judged. No code below 128 means anything else than good, bad, or cannot be judged.

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
pub mod stored;
