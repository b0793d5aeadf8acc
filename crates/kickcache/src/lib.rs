//! The `kickcache` program: what people type, and what they see.
//!
//! Rooms:
//! * [`cli`]: the commands, a file each; `user_text`: their output, with control characters escaped.
//! * `bench`: fio on named targets, in turns, with a verdict.
//! * [`demo`]: a cached disk beside its parts, measured on this machine.
//! * [`judge`]: whether a command is worse than another one; verdicts for `git bisect run`.
//! * `fio`: fio as a child process, its report and its logs; `interrupt`, `process_times`, `timeline`: what measurements share; `whole_file`: how
//!   results and pages are written; `notice`: what is said on standard error meanwhile.
//!
//! Invariants: nothing here serves or opens a volume itself. Commands make a plan for `kickcache_daemon`, ask a daemon over
//! its control socket, or call its offline tools; simulations are those of `kickcache_model`.
//!
//! Start with `cli/mod.rs`.

#![warn(clippy::print_stderr, clippy::print_stdout)]

mod bar;
mod bench;
pub mod cli;
mod closed_output;
pub mod demo;
mod fio;
mod interrupt;
pub mod judge;
mod notice;
mod process_times;
mod timeline;
mod user_text;
mod whole_file;
