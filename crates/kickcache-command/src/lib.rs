//! Parts that commands share: their arguments, exit codes and output.
//!
//! Invariants: only `user_text` writes text to standard output and standard error, except help, progress
//! bars, the screen of `top` and converted traces.

#![warn(missing_docs, clippy::print_stderr, clippy::print_stdout)]

pub mod bar;
pub mod closed_output;
pub mod exit;
pub mod interrupt;
pub mod notice;
pub mod options;
pub mod output;
pub mod table;
pub mod user_text;
pub mod whole_file;
pub mod width;
