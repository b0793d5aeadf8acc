//! Errors of cache devices and volumes.

use alloc::string::String;

use crate::format::version::FORMAT_VERSION_OLDEST;

/// An error of the engine, as a sentence for the user.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// No place for a superblock copy begins with the magic number.
    #[error("this is not a kickcache cache device: no valid superblock at offset 0 or 512 KiB ({found})")]
    NoSuperblock {
        /// The content that the device has instead.
        found: String,
    },
    /// A superblock of another format version.
    #[error(
        "the cache device has format version {found}, this kickcache reads versions {FORMAT_VERSION_OLDEST} to {expected}; \
         use the newer kickcache that it was served with"
    )]
    Version {
        /// The version on the device.
        found: u32,
        /// The newest version that this program reads.
        expected: u32,
    },
    /// The superblock is damaged or contradictory.
    #[error("the superblock cannot be used: {what}")]
    Superblock {
        /// The reason.
        what: String,
    },
    /// The device is too small or too large for a cache.
    #[error("a cache device needs {minimum} to {maximum} bytes, this one has {found}")]
    DeviceSize {
        /// The size of the device in bytes.
        found: u64,
        /// The smallest size of a cache device in bytes.
        minimum: u64,
        /// The largest size of a cache device in bytes.
        maximum: u64,
    },
    /// The cache device cannot grow in this way.
    #[error("the cache device cannot grow: {what}")]
    Growth {
        /// The reason.
        what: String,
    },
    /// Another device has taken over.
    #[error(
        "this cache device was replaced by {path}, which has all newer blocks, also dirty ones; give that device, or make it available again"
    )]
    Replaced {
        /// The path of that device.
        path: String,
    },
    /// The device is to take over from another one, and its copy is not complete.
    #[error(
        "this cache device was to replace the device that was at {path} then; its copy is not complete, and its blocks are not used; give that \
         device, which has all blocks"
    )]
    Incomplete {
        /// The path of that device.
        path: String,
    },
    /// A volume cannot be used, added or changed.
    #[error("volume {name}: {what}")]
    Volume {
        /// Name of the volume.
        name: String,
        /// The reason.
        what: String,
    },
    /// A redo journal cannot be used.
    #[error("the redo journal cannot be used: {what}")]
    Redo {
        /// The reason, and the remedy.
        what: String,
    },
    /// The log could not be read back.
    #[error(
        "the cache device answered with an error to {what}, so that its log cannot be read back; nothing is changed: see to \
         the device and start again, or go on without it (the same `kickcache serve ...` with --without-cache)"
    )]
    Recovery {
        /// The operation that failed.
        what: String,
    },
    /// A part of the log that was durable is damaged or missing.
    #[error(
        "the log of the cache device is damaged: {what} was whole once and is not any more, so that blocks could come \
         back as they were before"
    )]
    Rotted {
        /// Which part.
        what: String,
    },
    /// A part of the log is unreadable.
    #[error(
        "the cache device cannot read {what}, and what it says is not known, so that blocks could come back as they were \
         before; nothing is changed"
    )]
    Unreadable {
        /// Which part.
        what: String,
    },
}
