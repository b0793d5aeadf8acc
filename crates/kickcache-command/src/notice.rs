//! Messages on standard error while a command runs.

use std::io::Write;

use crate::user_text;

/// Prints a sentence. An error (the terminal was closed, the disk is full) does not stop the command.
pub fn notice(sentence: &str) {
    let _ = user_text::stderr().write_all(format!("{sentence}\n").as_bytes());
}
