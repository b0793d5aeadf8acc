//! A device that is not a cache device, at a path with a recorded cache device that may hold dirty blocks.

use std::path::Path;

use crate::devices::state::OriginRecord;
use crate::serve::config::StatePlace;
use crate::shell_command::{Flag, ShellCommand};
use crate::whole_path::whole_path;

/// The record of the cache device that was at a path, if it may hold dirty blocks, and the remedy.
pub fn lost_superblock(path: &Path, state: &StatePlace) -> Option<String> {
    let names = noted_dirty(path, state)?;
    let format = ShellCommand::new("format").word("--force").path(path).state(state);
    Some(format!(
        "the state directory records a cache device here that may hold blocks which the origins of \
         {names} lack: both copies of its superblock are damaged, or it was overwritten; keep it, or a \
         copy, and restore an earlier copy, if there is one; to serve without these blocks, use another \
         cache device and {}; {format} makes it a cache device again, and destroys them",
        Flag::new("--new-cache", "NEW".as_ref())
    ))
}

/// The names of the volumes whose origins may lack blocks of the cache device at a path, by the records.
pub fn noted_dirty(path: &Path, state: &StatePlace) -> Option<String> {
    let noted = state.store()?.origins().ok()?.records;
    let whole = whole_path(path);
    let is_meant = |record: &&OriginRecord| record.may_be_dirty && record.cache_path == whole;
    let names: Vec<&str> = noted.iter().filter(is_meant).map(|record| record.volume.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}
