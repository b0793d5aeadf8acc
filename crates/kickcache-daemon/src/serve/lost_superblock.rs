//! A device that is no cache device, at a path where one was that may hold dirty blocks: its superblock is damaged, say.

use std::path::Path;

use crate::serve::config::StatePlace;
use crate::shell_command::{Flag, ShellCommand};
use crate::state::OriginRecord;
use crate::whole_path::whole_path;

/// What is noted of the cache device that was at a path, if it may hold dirty blocks, and what to do; `None` if there was none.
pub fn lost_superblock(path: &Path, state: &StatePlace) -> Option<String> {
    let names = noted_dirty(path, state)?;
    let format = ShellCommand::new("format").word("--force").path(path).state(state);
    Some(format!(
        "by the state directory, a cache device was here that may hold blocks which the origins of {names} lack: both copies of \
         its superblock are damaged, or something else was written over it; keep it, or a copy, and bring back a copy of it \
         from before, if there is one; to go on without these blocks, serve with another cache device and {}; {format} \
         makes it one again, and destroys them",
        Flag::new("--new-cache", "NEW".as_ref())
    ))
}

/// The names of the volumes whose origins may lack what the cache device at a path holds, as it is noted; `None` if there are none.
pub fn noted_dirty(path: &Path, state: &StatePlace) -> Option<String> {
    let noted = state.store()?.origins().ok()?.records;
    let whole = whole_path(path);
    let is_meant = |record: &&OriginRecord| record.may_be_dirty && record.cache_path == whole;
    let names: Vec<&str> = noted.iter().filter(is_meant).map(|record| record.volume.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}
