//! Reports that a command writes beside what it prints.

use std::fs::{self, OpenOptions};
use std::path::Path;

use anyhow::Context;

use crate::cli::exit::Failure;

/// Tries whether a file can be written, before anything runs for long; leaves no file that was not there.
pub(crate) fn try_out(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let is_new = path.symlink_metadata().is_err();
    let made = OpenOptions::new().create(true).append(true).open(path);
    made.and_then(|_| if is_new { fs::remove_file(path) } else { Ok(()) })
        .map_err(|error| Failure::usage(format!("the report {} cannot be written: {error}", path.display())))
}

/// Writes a page.
pub(crate) fn write(path: &Path, page: &str) -> anyhow::Result<()> {
    fs::write(path, page).with_context(|| format!("the report {} cannot be written", path.display()))?;
    eprintln!("The report is in {}.", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_leaves_everything_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new.html"), folder.path().join("old.html"));
        fs::write(&old, "an older report").unwrap();
        for path in [&new, &old] {
            try_out(Some(path)).unwrap();
        }
        assert!(!new.exists(), "an interrupted run would leave it");
        assert_eq!(fs::read_to_string(&old).unwrap(), "an older report");
        assert!(try_out(Some(folder.path())).is_err(), "a directory is no report");
    }
}
