//! Measurements, simulations and traces, with their commands.
//!
//! Rooms:
//! * [`cli`]: the commands, a file or folder each, with their arguments and output.
//! * `bench`: fio on named targets, in turns.
//! * [`demo`]: the effect of a cache, shown on a simulated slow disk.
//! * [`judge`]: whether a command is worse than another one; verdicts for `git bisect run`.
//! * `fio`: fio as a child process, its report and its logs; `process_times`, `timeline`: shared parts of measurements.
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
