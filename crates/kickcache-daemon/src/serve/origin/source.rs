//! Where an origin comes from, and what one must tell that comes from outside of the daemon.

use std::path::PathBuf;

use crate::driver::queued_device::QueuedDevice;

/// Where the origin of a volume is.
pub enum OriginSource {
    /// A file or block device.
    Path(PathBuf),
    /// Whatever the caller brings in: a simulation, or the device of a test.
    Outside(Box<dyn OutsideOrigin>),
}

/// An origin that the daemon knows nothing about.
pub trait OutsideOrigin: QueuedDevice {
    /// Bytes, a multiple of 4096; it does not change.
    fn size(&self) -> u64;

    /// What the cache device recognises it by, such as `simulated:disk`.
    fn identity(&self) -> String;
}
