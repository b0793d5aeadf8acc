//! Files that were created, or formatted while blank: removed or zeroed again when dropped, unless they are kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::devices::origin_records::OriginRecords;
use crate::driver::rights::access;

#[derive(Default)]
pub(crate) struct CreatedFiles {
    files: Vec<(PathBuf, Undo)>,
    notes: Option<Arc<OriginRecords>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Undo {
    Remove,
    /// Restore a file of this many zero bytes.
    Blank(u64),
}

impl CreatedFiles {
    pub(super) fn new_file(&mut self, path: &Path) {
        self.files.push((path.into(), Undo::Remove));
    }

    pub(super) fn blank_file(&mut self, path: &Path, size: u64) {
        self.files.push((path.into(), Undo::Blank(size)));
    }

    /// Records of origins, which are restored unless they are kept.
    pub(crate) fn notes(&mut self, notes: Arc<OriginRecords>) {
        self.notes = Some(notes);
    }

    pub(crate) fn keep(&mut self) {
        self.files.clear();
        self.notes = None;
    }
}

impl Drop for CreatedFiles {
    fn drop(&mut self) {
        if let Some(notes) = self.notes.take() {
            notes.undo();
        }
        for (path, undo) in self.files.drain(..).rev() {
            let undone = match undo {
                Undo::Remove => access::remove_made(&path),
                Undo::Blank(size) => access::open_to_write(&path, 0)
                    .and_then(|file| file.set_len(0).and_then(|()| file.set_len(size))),
            };
            if let Err(error) = undone {
                tracing::warn!(
                    event = "file_left_behind",
                    "the unused new file {} cannot be removed: {error}",
                    path.display()
                );
            }
        }
    }
}
