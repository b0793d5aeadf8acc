//! The version of the structures on a cache device.

/// Format version of a device that has not grown, and may be served.
pub const FORMAT_VERSION: u32 = 2;
/// Format version of a device that has grown, and may be served.
pub const FORMAT_VERSION_GROWN: u32 = 3;
/// Format version of a device that was replaced, or of an incomplete successor.
pub const FORMAT_VERSION_REPLACED: u32 = 4;
/// Newest format version that this code reads.
pub const FORMAT_VERSION_NEWEST: u32 = FORMAT_VERSION_REPLACED;
/// Oldest format version that this code reads. Version 1 has no service marks.
pub const FORMAT_VERSION_OLDEST: u32 = 1;
