//! The `kickcache` program: its commands and their output.
//!
//! Rooms:
//! * [`cli`]: the commands of the daemon and of its devices, a file each. `kickcache_lab` has the commands that
//!   measure, simulate and convert.
//!
//! Invariants: nothing here serves or opens a volume itself. Commands make a plan for `kickcache_daemon`,
//! send requests to a daemon over its control socket, or call its offline tools.
//!
//! Start with `cli/mod.rs`.

#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod cli;
