//! Servers: they serve volumes to NBD clients, to virtual machines and to this host. Also the tools for a cache
//! device that no daemon serves.
//!
//! Folders:
//! * [`plan`]: what to serve, and its checks; [`config`] reads it from a file; [`words`] are the names of modes and the like.
//! * `start`: from a plan to servers; [`daemon`]: the running daemon and its report.
//! * [`operations`]: add, remove, grow, replace, leave-out, reload: changes of a running daemon.
//! * [`devices`]: which cache device belongs to which origin: identities, superblocks, records in the state directory,
//!   and tools for a cache device that no daemon serves.
//! * [`serve`]: the data plane: the event loop with the engine, the front ends and the origins.
//! * [`driver`]: devices, aligned memory, checksums, io_uring and its replacement; all `unsafe` of this crate
//!   except that of the ublk front end.
//! * [`control`]: the control socket, its protocol and the report that `status` shows.
//! * [`conditions`]: problems and notices, found in that report.
//! * [`metrics`]: the report as text for Prometheus, over HTTP; `log`: the lines of the log.
//! * [`recording`]: requests of a volume on their way from the loop to `kickcache record`.
//! * [`shell_command`]: commands that messages recommend to the user; [`service_unit`]: the same for systemd;
//!   [`error_sentence`]: errors as sentences.
//! * [`signals`], [`signature`], [`wakeup`], [`places`], [`path_text`], [`extents`], [`latency`]: helpers of several folders.
//!
//! Invariants: one thread owns an engine, its devices and the sockets of its clients, so a hit takes no lock with
//! io_uring, unless a request exceeds the loop's own memory. This crate does not use models, simulations or the
//! commands. No error of a device becomes success, and no log line can stop or end the loop.
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
