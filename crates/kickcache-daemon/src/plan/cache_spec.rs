//! A cache device and its volumes in the user's notation.

use std::path::{Path, PathBuf};

use kickcache_engine::config::FreedSegments;
use kickcache_units::Size;
use serde::Deserialize;

use crate::plan::endurance::Endurance;
use crate::plan::volume_spec::VolumeSpec;
use crate::plan::write_budget::WriteBudget;

/// A cache device and its volumes.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CacheSpec {
    /// File or block device.
    pub device: PathBuf,
    /// Size of a file that does not exist yet or is empty.
    pub size: Option<Size>,
    /// Whether free segments of the device are discarded.
    #[serde(default)]
    pub discard: bool,
    /// The limit of bytes written to the device; client writes are not limited.
    pub write_budget: Option<WriteBudget>,
    /// The bytes that can be written to the device in its life.
    pub endurance: Option<Endurance>,
    /// How the device is used.
    #[serde(skip)]
    pub service: CacheService,
    /// Whether the device may replace another device, which may hold dirty blocks.
    #[serde(skip)]
    pub replacement: Replacement,
    /// The device that is to replace this one.
    #[serde(skip)]
    pub successor: Option<PathBuf>,
    /// Devices that this one replaced, and that are not used any more.
    #[serde(skip)]
    pub former: Vec<PathBuf>,
    /// The volumes.
    #[serde(default, rename = "volume")]
    pub volumes: Vec<VolumeSpec>,
    /// Configured volumes that are missing in `volumes` because they cannot be served.
    #[serde(skip)]
    pub unserved: Vec<SkippedVolume>,
}

impl CacheSpec {
    /// A cache device in service, with default settings.
    pub fn new(device: &Path, volumes: Vec<VolumeSpec>) -> CacheSpec {
        CacheSpec {
            device: device.into(),
            size: None,
            discard: false,
            write_budget: None,
            endurance: None,
            service: CacheService::default(),
            replacement: Replacement::default(),
            successor: None,
            former: Vec::new(),
            volumes,
            unserved: Vec::new(),
        }
    }

    /// The treatment of the device's free segments.
    pub const fn freed_segments(&self) -> FreedSegments {
        if self.discard { FreedSegments::Discarded } else { FreedSegments::Kept }
    }

    /// The names of the volumes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.volumes.iter().map(|volume| volume.name.as_str())
    }
}

/// A configured volume that is not served, or a volume without a configuration that has blocks on a cache device
/// which its origin lacks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SkippedVolume {
    /// Its name.
    pub name: String,
    /// Why the volume is not served, and the remedy.
    pub why: String,
}

/// How a cache device is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheService {
    /// The cache device is used.
    #[default]
    InService,
    /// The cache device is left out by order, at the start or later: the volumes are served from their
    /// origins alone.
    LeftOut,
    /// The cache device is not used: by the records, it was already out of service before the start.
    OutOfService,
    /// The cache device is out of service, and an offline tool opens it only to write its dirty blocks back.
    WrittenBackOnly,
}

/// Whether a cache device may replace one that may hold blocks which the origins lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replacement {
    /// A start is refused, so that the user can serve the volumes with the other cache device.
    #[default]
    Refuse,
    /// The user accepts that the blocks on the other device are lost.
    Accept,
}
