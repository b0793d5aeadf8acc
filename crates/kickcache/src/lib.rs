//! The `kickcache` program: its commands and their output.
//!
//! Rooms:
//! * [`cli`]: the commands, a file each.
//! * `bench`: fio on named targets, in turns, with a verdict.
//! * [`demo`]: a volume and its devices, measured on this machine.
//! * [`judge`]: whether a command is worse than another one; verdicts for `git bisect run`.
//! * `fio`: fio as a child process, its report and its logs; `process_times`, `timeline`: shared parts of
//!   measurements.
//!
//! Invariants: nothing here serves or opens a volume itself. Commands make a plan for `kickcache_daemon`,
//! send requests to a daemon over its control socket, or call its offline tools; `kickcache_model` runs
//! simulations.
//!
//! Start with `cli/mod.rs`.

#![warn(clippy::print_stderr, clippy::print_stdout)]

mod bench;
pub mod cli;
pub mod demo;
mod fio;
pub mod judge;
mod process_times;
mod timeline;
