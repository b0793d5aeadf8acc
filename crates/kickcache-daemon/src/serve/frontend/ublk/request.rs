//! A request of the kernel in flight in the engine.

use super::key::UblkKey;

/// A request in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UblkRequest {
    /// Whose it is.
    pub(crate) key: UblkKey,
    /// What the kernel is told if it ends well.
    pub(crate) bytes: i32,
}
