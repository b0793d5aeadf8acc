//! The kind and the access mode of a device.

/// The access to a device, and the access of clients to a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AccessMode {
    /// The device is only read, with a lock that other readers may have too.
    ReadOnly,
    /// The device is read and written, with a lock that excludes other users.
    #[default]
    ReadWrite,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    File,
    Block,
}

/// Whether a device is flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flush {
    Done,
    /// No flush is sent: writes to the device count as durable.
    Assumed,
}

/// Whether I/O bypasses the page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direct {
    Yes,
    /// I/O uses the page cache.
    No,
}

/// Whether a device is known to store zeroes by a request without data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZeroSpeed {
    Fast,
    /// Zeroes may have to be written like data.
    Slow,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emptiness {
    /// The device may be empty.
    Allowed,
    /// The device must have at least one sector.
    Refused,
}
