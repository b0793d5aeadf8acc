//! Parts that commands share: their arguments, exit codes and output.
//!
//! Rooms:
//! * `exit`: exit codes, and failures as sentences; `options`: arguments of several commands.
//! * `user_text`, `notice`: standard output and standard error, with control characters escaped.
//! * `table`, `width`, `bar`: aligned columns, the size of the terminal, progress bars.
//! * `output`, `whole_file`: further files that a command writes.
//! * `interrupt`, `closed_output`: signals, and terminals and pipes that are closed.
//!
//! Invariants: only `user_text` writes text to standard output and standard error, except help, progress bars, the
//! screen of `top` and converted traces. A file of `whole_file` has its name when it is complete.
//!
//! Start with `exit.rs`.

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
