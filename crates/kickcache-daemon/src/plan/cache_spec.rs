//! A cache device and its volumes in the user's notation.

use std::path::{Path, PathBuf};

use kickcache_engine::config::FreedSegments;
use kickcache_units::Size;
use serde::Deserialize;

use crate::plan::endurance::Endurance;
use crate::plan::volume_spec::VolumeSpec;
use crate::plan::write_budget::WriteBudget;

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CacheSpec {
    pub device: PathBuf,
    /// Size of a file that does not exist yet or is empty.
    pub size: Option<Size>,
    #[serde(default)]
    pub discard: bool,
    pub write_budget: Option<WriteBudget>,
    pub endurance: Option<Endurance>,
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
    #[serde(default, rename = "volume")]
    pub volumes: Vec<VolumeSpec>,
    /// Configured volumes that are missing in `volumes` because they cannot be served.
    #[serde(skip)]
    pub unserved: Vec<SkippedVolume>,
}

impl CacheSpec {
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

    pub const fn freed_segments(&self) -> FreedSegments {
        if self.discard { FreedSegments::Discarded } else { FreedSegments::Kept }
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.volumes.iter().map(|volume| volume.name.as_str())
    }
}

/// A volume that is not served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SkippedVolume {
    pub name: String,
    /// Why the volume is not served.
    pub why: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheService {
    #[default]
    InService,
    /// The cache device is left out by order: the volumes are served from their origins alone.
    LeftOut,
    /// By the records, the cache device was already out of service before the start.
    OutOfService,
    /// An offline tool opens the cache device, which is out of service, to write its dirty blocks back.
    WrittenBackOnly,
}

/// Whether a cache device may replace one that may hold blocks which the origins lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replacement {
    #[default]
    Refuse,
    /// The user accepts that the blocks on the other device are lost.
    Accept,
}
