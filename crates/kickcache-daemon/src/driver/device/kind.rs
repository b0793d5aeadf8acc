//! The kind of a device, its access mode, and its capabilities.

/// The access to a device, and the access of clients to a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AccessMode {
    /// The device is only read, with a lock that other readers may have too.
    ReadOnly,
    /// The device is read and written, with a lock that excludes other users.
    #[default]
    ReadWrite,
}

/// The kind of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A regular file.
    File,
    /// A block device.
    Block,
}

/// Whether a device is flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flush {
    /// A flush is sent to the device.
    Done,
    /// No flush is sent: the device cannot flush, and its writes count as durable.
    Assumed,
}

/// Whether I/O bypasses the page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direct {
    /// The device is opened with O_DIRECT, past the page cache.
    Yes,
    /// I/O uses the page cache, because the file system or the sector size requires that.
    No,
}

/// Whether a device is known to store zeroes by a request without data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZeroSpeed {
    /// A request without data stores zeroes.
    Fast,
    /// This is not known: zeroes may have to be written like data.
    Slow,
}

/// Whether an empty device is acceptable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emptiness {
    /// The device may be empty, as a new cache file has no bytes yet.
    Allowed,
    /// The device must have at least one sector.
    Refused,
}
