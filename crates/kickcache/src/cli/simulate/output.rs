//! Files that a simulation writes beside what it prints.

use std::fs::OpenOptions;
use std::path::Path;

use anyhow::Context;

use crate::cli::exit::Failure;

/// Tries whether a file can be written, before anything runs for long.
pub(crate) fn try_out(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let made = OpenOptions::new().create(true).append(true).open(path);
    made.map(drop)
        .map_err(|error| Failure::usage(format!("the report {} cannot be written: {error}", path.display())))
}

/// Writes a page.
pub(crate) fn write(path: &Path, page: &str) -> anyhow::Result<()> {
    std::fs::write(path, page).with_context(|| format!("the report {} cannot be written", path.display()))?;
    eprintln!("The report is in {}.", path.display());
    Ok(())
}
