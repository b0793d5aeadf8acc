//! What was made for a start that may still fail: undone when dropped, unless it is kept.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

/// What is undone.
#[derive(Debug, Default)]
pub(crate) struct Made(Vec<(PathBuf, Undo)>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Undo {
    /// There was nothing.
    Remove,
    /// There was a file of so many bytes, all of them zeroes.
    Blank(u64),
}

impl Made {
    /// A file that did not exist.
    pub(super) fn new_file(&mut self, path: &Path) {
        self.0.push((path.into(), Undo::Remove));
    }

    /// A file that had so many bytes, all of them zeroes.
    pub(super) fn blank_file(&mut self, path: &Path, size: u64) {
        self.0.push((path.into(), Undo::Blank(size)));
    }

    /// It was no failure: everything stays.
    pub(crate) fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for (path, undo) in self.0.drain(..).rev() {
            let undone = match undo {
                Undo::Remove => std::fs::remove_file(&path),
                Undo::Blank(size) => OpenOptions::new()
                    .write(true)
                    .open(&path)
                    .and_then(|file| file.set_len(0).and_then(|()| file.set_len(size))),
            };
            if let Err(error) = undone {
                tracing::warn!("{} was made in vain and cannot be removed: {error}", path.display());
            }
        }
    }
}
