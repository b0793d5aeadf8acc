//! kickcache: serve a cached disk, look at it, try it.

pub mod cli;
pub mod config;
pub mod control;
pub mod demo;
pub mod driver;
mod extents;
mod jobs;
pub mod offline;
mod places;
pub mod plan;
pub mod serve;
mod signals;
pub mod state;
pub mod wakeup;
pub mod words;

#[cfg(test)]
#[path = "../../../fuzz/harness/replay.rs"]
mod corpus;
