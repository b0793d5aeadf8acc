//! A request of the kernel in flight in the engine.

use super::key::UblkKey;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UblkRequest {
    pub(crate) key: UblkKey,
    /// The result for the kernel on success: the bytes of a read or write, 0 for other operations.
    pub(crate) bytes: i32,
    pub(crate) memory: UblkMemory,
}

/// Where the bytes of a request are in the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UblkMemory {
    Tag,
    /// The data is copied to memory of the request.
    Own,
}
