//! Servers: they serve volumes to NBD clients, to virtual machines and to this host. Also the tools for a cache
//! device that no daemon serves.
//!
//! Folders:
//! * [`plan`]: what to serve; [`config`] reads it from a file.
//! * `start`: from a plan to servers; [`daemon`]: the running daemon.
//! * [`operations`]: changes of a running daemon.
//! * [`devices`]: identities, superblocks, and records in the state directory.
//! * [`serve`]: the data plane.
//! * [`driver`]: devices, memory and I/O.
//! * [`control`]: the control socket, its protocol and the report.
//! * [`conditions`]: problems and notices, found in the report.
//! * [`metrics`]: the report for Prometheus and the live page; `log`: the lines of the log.
//! * [`recording`]: requests of a volume on their way from the loop to `kickcache record`.
//! * [`shell_command`]: commands that messages recommend to the user; [`error_sentence`]: errors as
//!   sentences.
//!
//! Invariants: one thread owns an engine and the sockets of its clients. This crate does not use
//! models, simulations or the commands. No failed operation becomes success for a client, and no
//! log line can stop or end the loop.
//!
//! Start with `serve/event_loop/mod.rs`; the cache itself is in `kickcache_engine`.

pub mod conditions;
pub mod config;
pub mod control;
pub mod daemon;
pub mod devices;
pub mod driver;
pub mod error_sentence;
pub mod extents;
mod jobs;
pub mod latency;
mod log;
pub mod metrics;
pub mod opener;
pub mod operations;
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
mod start;
mod unix_connection;
pub mod wakeup;
pub mod whole_path;
pub mod words;

#[cfg(test)]
#[path = "../../../fuzz/harness/replay.rs"]
mod corpus;
