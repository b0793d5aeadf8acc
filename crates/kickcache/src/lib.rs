//! The `kickcache` program: its commands and their output.
//!
//! Rooms:
//! * [`cli`]: the commands. `kickcache_lab` has the commands that measure, simulate and convert.
//!
//! Invariants: no code here serves a volume by other means than `kickcache_daemon`. Commands make a plan for
//! it, send requests to a daemon over its control socket, or call its offline tools.
//!
//! Start with `cli/mod.rs`.

#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod cli;
