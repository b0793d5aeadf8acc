//! What is said on standard error while a command goes on.

use std::io::Write;

use crate::user_text;

/// Says a sentence. That nobody can read it (the terminal was closed, the disk is full) is no reason to stop.
pub(crate) fn notice(sentence: &str) {
    let _ = user_text::stderr().write_all(format!("{sentence}\n").as_bytes());
}
