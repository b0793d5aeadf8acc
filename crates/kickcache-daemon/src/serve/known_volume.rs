//! The properties of a volume that other threads than the loop need.

use crate::devices::volume_identity::VolumeIdentity;
use crate::driver::device::AccessMode;
use crate::serve::served_volumes::Volume;

#[derive(Clone, Debug)]
pub(crate) struct KnownVolume {
    /// The identity by which the volume is recognised after a restart.
    pub(crate) identity: VolumeIdentity,
    /// The size in bytes.
    pub(crate) size: u64,
    pub(crate) access: AccessMode,
}

impl KnownVolume {
    pub(crate) fn of(volume: &Volume) -> KnownVolume {
        let access = if volume.info.read_only { AccessMode::ReadOnly } else { AccessMode::ReadWrite };
        KnownVolume { identity: volume.identity.clone(), size: volume.info.size, access }
    }
}
