//! The interface of the reference policies.

/// Keeps a number of blocks and chooses which.
pub trait Policy {
    /// Requests a block and returns whether it was in the cache. It is in the cache afterwards.
    fn touch(&mut self, block: u64) -> bool;

    /// A block is no longer needed.
    fn discard(&mut self, block: u64);
}
