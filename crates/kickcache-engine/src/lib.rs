//! The cache of kickcache as a state machine: requests and completions go in, submissions and replies come out.
//!
//! No I/O, no clock, no threads, no random source and no payload bytes live here. Start reading at
//! [`engine::Engine`]; the words are those of `docs/format.md` and `ARCHITECTURE.md`.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]
#![warn(missing_docs, clippy::wildcard_enum_match_arm)]

extern crate alloc;

#[macro_use]
pub mod mutants;

pub mod blank_device;
mod cache;
pub mod cache_engine;
pub mod config;
pub mod device;
mod durable;
mod ending;
pub mod engine;
pub mod error;
pub mod format;

mod ids;
mod inflight;
mod journal;
mod log;
mod meter;
mod order;
mod path;
mod pins;
mod policy;
mod pool;
pub mod queue;
pub mod request;
mod room;
#[cfg(test)]
mod scene;
mod state;
pub mod stats;
mod submit;
mod task;
pub mod time;
pub mod tools;
pub mod units;
mod unreadable;
mod view;
mod volume;
mod watermark;
