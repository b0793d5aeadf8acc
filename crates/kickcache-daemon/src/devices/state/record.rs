//! The contents of the files of the state directory.

use std::path::PathBuf;

use kickcache_engine::format::superblock::Superblock;
use serde::{Deserialize, Serialize};

use super::file_identity::FileIdentity;
use super::file_stamp::FileStamp;
use crate::extents::Extent;

pub(super) const VERSION: u32 = 1;

/// An origin, by its identity ([`crate::driver::device::identity`]).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OriginRecord {
    pub version: u32,
    /// The origin's identity on the cache device.
    pub identity: String,
    /// The name of the volume that the origin was last served as.
    pub volume: String,
    /// The cache device that the origin was last served with; empty if it was never served with a cache
    /// device.
    pub cache_uuid: String,
    pub cache_path: PathBuf,
    /// Whether that cache device may hold blocks which the origin lacks.
    pub may_be_dirty: bool,
    /// The identity of the origin's file, or of the file below its loop device, if it is known.
    #[serde(default)]
    pub file: Option<FileIdentity>,
    /// Size and times of the origin's file at the last clean stop, with times of 0 if the next start found it
    /// changed; `None` if they are unknown, and for block devices and exports.
    #[serde(default)]
    pub stopped: Option<FileStamp>,
    /// Whether the origin may have been written without that cache device since.
    #[serde(default)]
    pub written_without: bool,
    /// Cache devices that were complete when each was last served with the origin: the origin had all
    /// acknowledged writes.
    #[serde(default)]
    pub complete: Vec<CompleteCache>,
    /// The uuids of other cache devices that the origin was served with, the last one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<String>,
}

/// A cache device, as of its last start with an origin.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CompleteCache {
    pub cache_uuid: String,
    pub starts: u64,
}

/// The most cache devices in each list of an origin's record.
const COMPLETE_MAX: usize = 32;

/// A cache device, by its uuid.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CacheRecord {
    pub version: u32,
    pub uuid: String,
    pub path: PathBuf,
    /// The number of the last start, as in the superblock, or the next one after a format. 0 if the number is
    /// unknown.
    #[serde(default)]
    pub starts: u64,
    /// If set, the cache device must not be used any more.
    #[serde(default)]
    pub out_of_service: Option<OutOfService>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OutOfService {
    /// The time of the first record, in seconds since 1970.
    pub since: u64,
    /// The volumes that may have dirty blocks on this device alone.
    pub incomplete: Vec<String>,
    /// The blocks for which this device had the newest data when its daemon stopped. For volumes without an
    /// entry, and if the daemon was killed, these blocks are unknown.
    #[serde(default)]
    pub newest: Vec<NewestBlocks>,
}

impl OutOfService {
    /// This record with a stopping daemon's newest blocks; entries of volumes that the daemon did not serve
    /// are kept.
    #[must_use]
    pub fn with_newest(mut self, known: Vec<NewestBlocks>) -> OutOfService {
        self.newest.retain(|earlier| known.iter().all(|blocks| blocks.volume != earlier.volume));
        self.newest.extend(known);
        self
    }
}

/// Blocks of a volume for which a cache device out of service has the newest data; other blocks are newer on
/// the origin.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NewestBlocks {
    pub volume: String,
    /// The extents of these blocks in the volume, in bytes.
    pub extents: Vec<Extent>,
}

/// Whether an origin has all acknowledged writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completeness {
    Complete,
    /// Dirty blocks may be on the cache device alone.
    MayBeDirty,
}

impl OriginRecord {
    pub fn new(
        identity: &str,
        volume: &str,
        cache: &CacheRecord,
        completeness: Completeness,
    ) -> OriginRecord {
        let own = CompleteCache { cache_uuid: cache.uuid.clone(), starts: cache.starts };
        OriginRecord {
            version: VERSION,
            identity: identity.into(),
            volume: volume.into(),
            cache_uuid: cache.uuid.clone(),
            cache_path: cache.path.clone(),
            may_be_dirty: completeness == Completeness::MayBeDirty,
            file: None,
            stopped: None,
            written_without: false,
            complete: match completeness {
                Completeness::Complete => vec![own],
                Completeness::MayBeDirty => Vec::new(),
            },
            earlier: Vec::new(),
        }
    }

    /// This record with an earlier record's information on other cache devices.
    #[must_use]
    pub fn after(mut self, before: &OriginRecord) -> OriginRecord {
        let others = before.complete.iter().filter(|cache| cache.cache_uuid != self.cache_uuid);
        self.complete.extend(others.take(COMPLETE_MAX - 1).cloned());
        let known = std::iter::once(&before.cache_uuid).chain(&before.earlier);
        let others = known.filter(|uuid| !uuid.is_empty() && **uuid != self.cache_uuid);
        self.earlier.extend(others.take(COMPLETE_MAX).cloned());
        self
    }

    /// This record after a start of a cache device that acknowledged no writes.
    #[must_use]
    pub fn after_failed_start(mut self, cache: &CacheRecord) -> OriginRecord {
        let is_meant =
            |known: &&mut CompleteCache| known.cache_uuid == cache.uuid && known.starts + 1 == cache.starts;
        self.complete.iter_mut().filter(is_meant).for_each(|known| known.starts = cache.starts);
        self
    }

    /// The record of an origin that is served without a cache device, and has no record yet.
    pub fn without_cache(identity: &str, volume: &str) -> OriginRecord {
        OriginRecord {
            version: VERSION,
            identity: identity.into(),
            volume: volume.into(),
            cache_uuid: String::new(),
            cache_path: PathBuf::new(),
            may_be_dirty: false,
            file: None,
            stopped: None,
            written_without: true,
            complete: Vec::new(),
            earlier: Vec::new(),
        }
    }

    pub fn is_of_same(&self, other: &OriginRecord) -> bool {
        self.volume == other.volume && self.cache_uuid == other.cache_uuid
    }

    /// Whether the record proves that the origin has all writes that the cache device with this superblock
    /// acknowledged, or newer ones.
    pub fn is_complete(&self, superblock: &Superblock) -> bool {
        let meant = CompleteCache { cache_uuid: uuid_text(superblock.uuid), starts: superblock.starts };
        self.complete.contains(&meant)
    }

    /// Whether the record has the cache device with this uuid as the last or an earlier one.
    pub fn is_of(&self, uuid: &str) -> bool {
        self.cache_uuid == uuid || self.earlier.iter().any(|earlier| earlier == uuid)
    }

    /// Whether, by the record, the cache device with this uuid is the origin's last one and all writes since went
    /// through it.
    pub fn is_current(&self, uuid: &str) -> bool {
        self.cache_uuid == uuid && !self.written_without
    }
}

impl CacheRecord {
    /// The record of a cache device that is in service.
    pub fn new(superblock: &Superblock, path: PathBuf) -> CacheRecord {
        let uuid = uuid_text(superblock.uuid);
        CacheRecord { version: VERSION, uuid, path, starts: superblock.starts, out_of_service: None }
    }
}

/// The usual way to write 16 bytes: 8-4-4-4-12 hexadecimal digits.
pub fn uuid_text(uuid: [u8; 16]) -> String {
    let part = |range: std::ops::Range<usize>| {
        uuid[range].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    [0..4, 4..6, 6..8, 8..10, 10..16].map(part).join("-")
}
