//! The cache of kickcache as a state machine: events in, submissions and replies out.
//!
//! Modules:
//! * `units`, `ids`, [`time`], [`config`], [`error`], [`request`], [`device`], [`stats`]: basic types.
//! * [`format`]: the on-disk format.
//! * `cache`: the cache metadata (index, slots, segments).
//! * `policy`: decisions; `path`: the steps of requests and background work.
//! * `log`, `journal`, `order`: writes to the cache device, and their durability.
//! * `inflight`: operations in progress.
//! * [`engine`]: the dispatcher; [`cache_engine`]: the trait that drivers and simulators use.
//!
//! Invariants: no I/O, no clock, no threads, no random numbers, no floats, no `unsafe`; no payload bytes, except that
//! recovery checks the blocks of segments without a usable summary. The invariants of the cache itself (I-1 and so on)
//! are in `ARCHITECTURE.md`, the layout of a cache device in `docs/reference/format.md`.
//!
//! Start with [`engine::Engine`], then `state`, then `path/read`.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]
#![warn(missing_docs, clippy::wildcard_enum_match_arm)]

extern crate alloc;

#[macro_use]
pub mod mutants;
#[macro_use]
pub mod tuning;

mod append;
pub mod blank_device;
mod cache;
mod cache_device;
pub mod cache_engine;
pub mod config;
pub mod device;
mod durable;
mod ending;
pub mod engine;
pub mod error;
pub mod format;
mod growing;

mod ids;
mod inflight;
mod journal;
mod left_out;
mod log;
pub mod membership;
mod meter;
pub mod mirror;
mod order;
pub mod pass_through;
mod path;
mod pins;
mod policy;
mod pool;
pub mod queue;
pub mod rate;
pub mod redo;
mod refusals;
pub mod request;
mod room;
pub mod samples;
#[cfg(test)]
mod scene;
mod searching;
mod shortage;
mod state;
pub mod stats;
mod step;
mod submit;
mod task;
pub mod time;
pub mod tools;
mod unflushed;
pub mod units;
mod unreadable;
mod view;
mod volume;
mod volumes;
mod waiters;
mod watermark;

/// The detection of sequential streams.
pub use crate::policy::stream::Streams;
