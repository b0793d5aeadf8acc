//! A request of the kernel in flight in the engine.

use super::key::UblkKey;

/// A request in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UblkRequest {
    /// Whose it is.
    pub(crate) key: UblkKey,
    /// What the kernel is told if it ends well.
    pub(crate) bytes: i32,
    pub(crate) memory: UblkMemory,
}

/// Where the bytes of a request are in the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UblkMemory {
    /// Where the kernel has them.
    Tag,
    /// In memory of their own, that lies to the volume as devices need it; they are copied.
    Own,
}
