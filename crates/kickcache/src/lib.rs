//! The `kickcache` program: its commands and their output.
//!
//! Invariants: no code here serves a volume by other means than `kickcache_daemon`.

#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod cli;
