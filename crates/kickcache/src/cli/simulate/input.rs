//! Texts that people write for a simulation: job files and device files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::cli::exit::Failure;

/// More than any of them has.
const BYTES_MAX: u64 = 1 << 20;

/// The text of a file, which is read once, so that it may be a pipe.
pub(crate) fn read(what: &str, path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text));
    let wrong = match read {
        Ok(_) if text.len() as u64 <= BYTES_MAX => return Ok(text),
        Ok(_) => "it has more than 1 MiB, and a few lines were expected; name another file".into(),
        Err(error) => error.to_string(),
    };
    Err(Failure::usage(format!("the {what} {} cannot be read: {wrong}", path.display())))
}
