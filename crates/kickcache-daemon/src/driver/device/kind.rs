//! What a device is, what it is opened for, and what it can do.

/// What a device is opened for, and what clients may do with a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AccessMode {
    /// Reading; others may have it open too.
    ReadOnly,
    /// Reading and writing; nobody else may have it open.
    #[default]
    ReadWrite,
}

/// What a device is.
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
    /// When it is asked for.
    Done,
    /// Never: it cannot be, and what it was given counts as durable.
    Assumed,
}

/// Whether the page cache is passed by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direct {
    /// O_DIRECT.
    Yes,
    /// Through the page cache, because the file system or the sector size asks for it.
    No,
}

/// Whether a device stores zeroes without being sent them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZeroSpeed {
    /// Yes.
    Fast,
    /// No: zeroes are written like data.
    Slow,
}

/// Whether an empty device is acceptable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emptiness {
    /// A new cache file has no bytes yet.
    Allowed,
    /// The device must have a sector at least.
    Refused,
}
