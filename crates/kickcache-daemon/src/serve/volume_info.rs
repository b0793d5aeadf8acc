//! The properties of a volume; only its size may change while it is served.

use kickcache_engine::units::VolumeId;

/// The properties of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeInfo {
    /// Its name.
    pub name: String,
    /// The volume's id in the engine's status.
    pub id: VolumeId,
    /// The size of the volume in bytes.
    pub size: u64,
    /// The origin's identity on the cache device.
    pub origin: String,
    /// Whether clients may only read.
    pub read_only: bool,
}
