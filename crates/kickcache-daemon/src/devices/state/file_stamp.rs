//! Size and times of a file, which show a write.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

use crate::driver::device::identity::path_of_file;
use crate::driver::rights::access;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileStamp {
    pub size: u64,
    /// The last change of its content (mtime), in nanoseconds since 1970.
    pub modified_ns: i64,
    /// The last change of its content or attributes (ctime), in nanoseconds since 1970.
    pub changed_ns: i64,
}

impl FileStamp {
    /// The stamp of an origin that is a file, if it can be examined.
    pub fn of_origin(identity: &str) -> Option<FileStamp> {
        Some(FileStamp::of(&access::metadata(path_of_file(identity)?).ok()?))
    }

    /// This stamp with times of 0, so that it never equals the stamp of the present file.
    #[must_use]
    pub fn outdated(self) -> FileStamp {
        FileStamp { modified_ns: 0, changed_ns: 0, ..self }
    }

    pub fn of(metadata: &Metadata) -> FileStamp {
        let nanoseconds =
            |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        FileStamp {
            size: metadata.size(),
            modified_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}
