//! What serves: a cached disk for NBD clients and virtual machines, and the tools for a cache device that nobody serves.
//!
//! Rooms:
//! * [`plan`]: what shall be served, and its checks; [`config`] reads it from a file; [`words`] are the words that people
//!   write for modes and the like.
//! * [`serve`]: the event loop with the engine, the sockets of clients and guests, and the notes of what went past a cache.
//! * [`driver`]: devices, aligned memory, checksums, io_uring and its stand-in; all `unsafe` of this crate.
//! * [`control`]: the control socket, its protocol and the report that `status` shows.
//! * [`state`]: what is noted outside of cache devices.
//! * [`offline`]: reads, verifies, drains and changes a cache device that nobody serves.
//! * [`shell_command`]: commands that messages tell somebody to type.
//! * [`signals`], [`wakeup`], [`places`], [`extents`]: small things that several rooms need.
//!
//! Invariants: one thread owns an engine, its devices and the sockets of its clients, so that no lock stands in the way of
//! a hit. Nothing here knows models, simulations or the command line. No error of a device becomes success, and no log
//! line can stop or end the loop.
//!
//! Start with `serve/event_loop/mod.rs`; what the cache itself does is `kickcache_engine`.

pub mod config;
pub mod control;
pub mod driver;
pub mod extents;
mod jobs;
pub mod offline;
pub mod places;
pub mod plan;
pub mod serve;
pub mod shell_command;
pub mod signals;
pub mod state;
pub mod wakeup;
pub mod whole_path;
pub mod words;

#[cfg(test)]
#[path = "../../../fuzz/harness/replay.rs"]
mod corpus;
