//! The files of a state directory, by their names.
//!
//! Invariant: [`StateFile::ALL`] has every file that this program creates there. All code that enumerates a
//! state directory uses it.

use std::ffi::OsStr;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateFile {
    OriginRecord,
    OriginLock,
    CacheRecord,
    WearRecord,
    /// A record before it is renamed.
    Unfinished,
}

impl StateFile {
    pub const ALL: [StateFile; 5] = [
        StateFile::OriginRecord,
        StateFile::OriginLock,
        StateFile::CacheRecord,
        StateFile::WearRecord,
        StateFile::Unfinished,
    ];

    /// The kind of a file, by its name; `None` if this program makes no such file.
    pub fn of_name(name: &OsStr) -> Option<StateFile> {
        let name = name.to_str()?;
        let is_meant = |kind: &StateFile| name.starts_with(kind.prefix()) && name.ends_with(kind.suffix());
        StateFile::ALL.into_iter().find(is_meant)
    }

    pub(super) fn name(self, key: &str) -> String {
        format!("{}{key}{}", self.prefix(), self.suffix())
    }

    pub(super) fn prefix(self) -> &'static str {
        match self {
            StateFile::OriginRecord | StateFile::OriginLock => "origin-",
            StateFile::CacheRecord => "cache-",
            StateFile::WearRecord => "wear-",
            StateFile::Unfinished => ".new-",
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            StateFile::OriginRecord | StateFile::CacheRecord | StateFile::WearRecord => ".json",
            StateFile::OriginLock => ".lock",
            // The rest of the name is random, so there is no fixed suffix.
            StateFile::Unfinished => "",
        }
    }
}
