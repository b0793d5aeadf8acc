//! The properties of a volume; only its size may change while it is served.

use kickcache_engine::units::VolumeId;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeInfo {
    pub name: String,
    pub id: VolumeId,
    /// The size of the volume in bytes.
    pub size: u64,
    /// The origin's identity on the cache device.
    pub origin: String,
    pub read_only: bool,
}
