//! The devices that candidates are made of.

use kickcache_model::device_model::device_file::DeviceFile;

pub(super) struct Devices {
    pub(super) origin: DeviceFile,
    pub(super) cache: DeviceFile,
    pub(super) fast: DeviceFile,
}
