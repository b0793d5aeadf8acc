//! Requests and replies as lines of JSON.

use std::io::{self, BufRead, Read, Write};
use std::ops::Not;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::control::report::Report;
use crate::control::unique_keys::UniqueKeys;
use crate::plan::plan_change::PlanChange;
use crate::plan::volume_spec::{DirtyLoss, VolumeSpec};
use crate::words::ModeWord;

/// The longest request line in bytes, with its line feed.
pub const REQUEST_LINE_MAX: u64 = 32 << 10;
/// The longest reply line in bytes, with its line feed.
pub const REPLY_LINE_MAX: u64 = 4 << 20;

/// The requests to a daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    Status {},
    Mode {
        volume: String,
        mode: ModeWord,
    },
    Drain {
        volume: String,
    },
    /// Stop caching reads of a volume for a time.
    PauseCaching {
        volume: String,
        /// The length of the pause in seconds; 0 ends a pause.
        seconds: u64,
    },
    /// Take over the size of a volume's origin.
    Resize {
        volume: String,
    },
    /// Use more of a cache device.
    Grow {
        /// The path of the cache device; `None` for the only one.
        #[serde(default)]
        device: Option<String>,
        /// The new size in bytes; `None` for the whole file or block device.
        #[serde(default)]
        size_bytes: Option<u64>,
        #[serde(default)]
        dry_run: bool,
    },
    Replace(ReplacementOrder),
    /// Serve the volumes of a cache device without it.
    LeaveOut(LeaveOutOrder),
    /// Record the requests of a volume; parcels follow the reply.
    Record {
        volume: String,
    },
    Add(VolumeToAdd),
    Remove(RemoveOrder),
    /// Apply the present configuration file.
    Reload {
        #[serde(default)]
        dry_run: bool,
    },
    Stop {
        /// Whether the data in removed files may be lost.
        #[serde(default, skip_serializing_if = "Not::not")]
        lose_unlinked: bool,
    },
    /// Report how the daemon ended, at its end.
    AwaitEnd {},
    /// Name the daemon that serves the connection.
    Ping {},
}

impl Request {
    /// Whether the answer may take as long as a device, or the writeback of dirty blocks.
    pub(super) fn may_take_long(&self) -> bool {
        matches!(
            self,
            Request::Replace(_)
                | Request::LeaveOut(_)
                | Request::Add(_)
                | Request::Remove(_)
                | Request::Reload { .. }
        )
    }

    /// Whether an equal request that arrives while this one is running gets the same answer. A reload must
    /// read its file again, and a resize its origin.
    pub(super) fn is_shared(&self) -> bool {
        match self {
            Request::Grow { .. }
            | Request::Replace(_)
            | Request::LeaveOut(_)
            | Request::Add(_)
            | Request::Remove(_) => true,
            Request::Status {}
            | Request::Mode { .. }
            | Request::Drain { .. }
            | Request::PauseCaching { .. }
            | Request::Resize { .. }
            | Request::Record { .. }
            | Request::Reload { .. }
            | Request::Stop { .. }
            | Request::AwaitEnd {}
            | Request::Ping {} => false,
        }
    }
}

/// The replies of the daemon.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// The request was carried out, or its operation has begun.
    Done,
    Present {
        /// A name that no other daemon has had at this socket.
        instance: String,
    },
    /// The request was refused, or its operation failed.
    Error {
        message: String,
    },
    /// The request is impossible: an argument or the configuration file is wrong.
    Wrong {
        message: String,
    },
    /// The operation is still running.
    Running {
        message: String,
    },
    Added(AddedVolume),
    Removed(Removed),
    /// The difference to the configuration file, applied or not.
    Reloaded(Reloaded),
    /// A recording begins; parcels follow.
    Recording(RecordingTitle),
    Ended {
        /// Why the daemon did not end cleanly; `None` if it did.
        error: Option<String>,
        /// The volumes with bytes on cache devices that the origins lack, or have not flushed; empty if the end was
        /// not clean.
        #[serde(default)]
        left: Vec<LeftOnCache>,
    },
    Resized(Resized),
    Growing(Growing),
    Replacing(Replacing),
    LeftOut(LeftOut),
    Status(Box<Report>),
}

/// A volume that was added, or could be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AddedVolume {
    /// A sentence, if the next start may not serve the volume.
    pub hint: Option<String>,
}

/// The growth of a cache device, carried out or not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Growing {
    pub device: String,
    /// The bytes that the cache device uses before the growth.
    pub before_bytes: u64,
    /// The bytes that the cache device will use; `before_bytes` if it does not grow.
    pub size_bytes: u64,
}

/// The cache device to be replaced, and its successor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplacementOrder {
    /// The cache device; `None` if the daemon has only one.
    #[serde(default)]
    pub device: Option<String>,
    pub with: PathBuf,
    /// The size in bytes of a file that must be made. Without it, the file has the bytes that the cache device uses; after
    /// a `leave-out`, the order is refused.
    #[serde(default)]
    pub size_bytes: Option<u64>,
    /// Whether the present data on the new device may be lost.
    #[serde(default)]
    pub force: bool,
    #[serde(default)]
    pub dry_run: bool,
}

/// The replacement of a cache device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Replacing {
    pub device: String,
    pub with: String,
    /// Bytes to copy: 0 for a device taken in, and the size of the cache device once the replacement has
    /// ended.
    pub bytes: u64,
    #[serde(default)]
    pub stage: ReplacementStage,
    /// The data on the other device that would be lost, in words, for a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destroyed: Option<String>,
}

/// Progress of a replacement when it was ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplacementStage {
    /// The command was a dry run. Only the command itself sets this.
    Planned,
    /// The order begins the replacement, or in a dry run would begin it.
    #[default]
    Begun,
    /// An earlier order began the replacement.
    Running,
    /// An earlier order began the replacement, and the new device is now the cache device.
    Done,
}

/// Which cache device is to be left out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaveOutOrder {
    /// The path of the cache device; `None` if there is only one.
    #[serde(default)]
    pub device: Option<String>,
    /// Whether dirty blocks that cannot be written back may be lost.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub abandon_dirty: bool,
    #[serde(default)]
    pub dry_run: bool,
}

/// A cache device that is left out, or in a dry run would be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeftOut {
    pub device: String,
    /// The dirty blocks at the time of the request.
    pub dirty: Vec<DirtyVolume>,
    /// The part of the dirty blocks that was lost; empty in a dry run.
    pub lost: Vec<DirtyVolume>,
}

/// The dirty blocks of a volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DirtyVolume {
    pub volume: String,
    /// Bytes that the origin lacks, or has not flushed.
    pub bytes: u64,
}

/// Dirty blocks of a volume after a stop.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeftOnCache {
    pub volume: String,
    /// Bytes that the origin lacks, or has not flushed.
    pub bytes: u64,
    pub device: String,
    pub drain: String,
}

/// The recorded volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RecordingTitle {
    pub volume: String,
    pub volume_bytes: u64,
    /// When the recording began, in nanoseconds since the beginning of 1970, UTC.
    pub started_nanos: u64,
}

/// A volume to be added.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeToAdd {
    pub cache: PathBuf,
    /// The volume as a table of a configuration file, with absolute paths.
    pub volume: serde_json::Value,
    /// The user claims that the origin has the recorded data.
    #[serde(default)]
    pub origin_moved: bool,
    /// The origin was extended while no daemon served it.
    #[serde(default)]
    pub origin_grown: bool,
    /// Accept an origin even if it has the content of a cache device.
    #[serde(default)]
    pub force_origin: bool,
    /// Dirty blocks of the volume on another cache device may be lost.
    #[serde(default)]
    pub new_cache: bool,
    #[serde(default, skip_serializing_if = "Not::not")]
    pub dry_run: bool,
}

impl VolumeToAdd {
    /// Converts the request to the plan of a volume.
    ///
    /// # Errors
    /// If a key or a value is wrong.
    pub fn spec(&self) -> serde_json::Result<VolumeSpec> {
        let mut spec: VolumeSpec = serde_json::from_value(self.volume.clone())?;
        spec.claims.moved = self.origin_moved;
        spec.claims.grown = self.origin_grown;
        spec.claims.forced = self.force_origin;
        spec.dirty_loss = if self.new_cache { DirtyLoss::Accepted } else { DirtyLoss::Refused };
        Ok(spec)
    }
}

/// A volume that is to be removed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveOrder {
    pub volume: String,
    #[serde(default)]
    pub disconnect: bool,
    /// Whether dirty blocks of the volume may be lost.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub abandon_dirty: bool,
    #[serde(default, skip_serializing_if = "Not::not")]
    pub dry_run: bool,
}

/// A volume that was removed, or in a dry run would be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Removed {
    /// Bytes lost by order, or in a dry run to be lost: the origin lacks them, or has not flushed them.
    pub lost_bytes: u64,
    /// For a dry run: bytes that the origin lacks, or has not flushed; else 0.
    #[serde(default)]
    pub dirty_bytes: u64,
}

/// The difference to a configuration file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Reloaded {
    pub changes: Vec<PlanChange>,
    /// Differences to the file that remain, and other notes, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The result of a check of an origin's size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Resized {
    /// The size from now on, in bytes.
    pub size_bytes: u64,
    #[serde(default)]
    pub is_unchanged: bool,
}

/// Reads one line; `None` at the end of the stream.
///
/// # Errors
/// I/O, a line longer than `length_max` or without an end, a line that is no JSON of this kind, or an object with
/// two equal keys.
pub fn read_line<T: DeserializeOwned>(stream: &mut impl BufRead, length_max: u64) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    let count = stream.take(length_max).read_until(b'\n', &mut line)?;
    if count == 0 {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') {
        let what = format!("the line is longer than {length_max} bytes or has no end");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    let read = || serde_json::from_value(serde_json::from_slice::<UniqueKeys>(&line)?.0).map(Some);
    read().map_err(|error: serde_json::Error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Writes one line.
///
/// # Errors
/// I/O.
pub fn write_line<T: Serialize>(stream: &mut impl Write, value: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line)
}
