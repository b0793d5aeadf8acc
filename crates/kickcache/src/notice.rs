//! What is said on standard error while a command goes on.

use std::io::{self, Write};

/// Says a sentence. That nobody can read it (the terminal was closed, the disk is full) is no reason to stop.
pub(crate) fn notice(sentence: &str) {
    let _ = writeln!(io::stderr(), "{sentence}");
}
