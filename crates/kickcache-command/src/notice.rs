//! Messages on standard error while a command runs.

use std::io::Write;

use crate::user_text;

/// Prints a sentence; errors are ignored.
pub fn notice(sentence: &str) {
    let _ = user_text::stderr().write_all(format!("{sentence}\n").as_bytes());
}
