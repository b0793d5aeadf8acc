//! The permission to overwrite a device.

/// Whether the old content of a device may be overwritten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overwrite {
    /// The device must be missing, empty or blank, or a cache device out of service with no needed blocks.
    Refuse,
    /// The present data may be lost.
    Allow,
}
