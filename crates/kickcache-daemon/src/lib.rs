//! Servers: they serve volumes to NBD clients and virtual machines. Also the tools for a cache device
//! that no daemon serves.
//!
//! Rooms:
//! * [`plan`]: what to serve, and its checks; [`config`] reads it from a file; [`words`] are the names of modes and the like.
//! * [`serve`]: the event loop with the engine, the front ends, the origins, and the checks before a volume is served.
//! * [`driver`]: devices, aligned memory, checksums, io_uring and its replacement; all `unsafe` of this
//!   crate.
//! * [`control`]: the control socket, its protocol and the report that `status` shows.
//! * [`conditions`]: problems and running operations, found in that report.
//! * [`metrics`]: the same as text for Prometheus, over HTTP.
//! * [`recording`]: requests of a volume on their way from the loop to `kickcache record`.
//! * [`state`]: the state directory: records of origins and cache devices.
//! * [`offline`]: tools for a cache device that no daemon serves: read, verify, drain, change.
//! * [`shell_command`]: commands that messages recommend to the user.
//! * [`signals`], [`signature`], [`wakeup`], [`places`], [`path_text`], [`extents`], [`latency`]: helpers of several rooms.
//!
//! Invariants: one thread owns an engine, its devices and the sockets of its clients, so a hit takes no lock.
//! This crate does not use models, simulations or the command line. No error of a device becomes success, and
//! no log line can stop or end the loop.
//!
//! Start with `serve/event_loop/mod.rs`; the cache itself is in `kickcache_engine`.

pub mod conditions;
pub mod config;
pub mod control;
pub mod driver;
pub mod extents;
mod jobs;
pub mod latency;
pub mod metrics;
pub mod offline;
pub mod opener;
pub mod own_user;
pub mod path_text;
pub mod places;
pub mod plan;
pub mod recording;
pub mod serve;
pub mod service_unit;
pub mod shell_command;
pub mod signals;
pub mod signature;
mod socket_path;
pub mod state;
mod unix_connection;
pub mod wakeup;
pub mod whole_path;
pub mod words;

#[cfg(test)]
#[path = "../../../fuzz/harness/replay.rs"]
mod corpus;
