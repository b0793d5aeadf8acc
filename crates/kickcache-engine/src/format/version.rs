//! The version of what stands on a cache device.

/// Format version that this code writes.
pub const FORMAT_VERSION: u32 = 2;
/// Oldest format version that it reads. Version 1 has no service marks.
pub const FORMAT_VERSION_OLDEST: u32 = 1;
