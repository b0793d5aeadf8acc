//! What is fixed about a volume while it is served.

use kickcache_engine::units::VolumeId;

/// What is fixed about a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeInfo {
    /// Its name.
    pub name: String,
    /// Its id in the engine's status.
    pub id: VolumeId,
    /// Bytes.
    pub size: u64,
    /// What the cache device recognises the origin by.
    pub origin: String,
    /// Whether clients may only read.
    pub read_only: bool,
}
