//! The interface of the reference policies.

/// Keeps a number of blocks and chooses which.
pub trait Policy {
    /// Requests a block and returns whether it was in the cache. It is in the cache afterwards.
    fn touch(&mut self, block: u64) -> bool;

    /// Removes a block that is no longer needed from the cache.
    fn discard(&mut self, block: u64);
}
