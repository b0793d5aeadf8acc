//! What every reference policy does.

/// Keeps a number of blocks and chooses which.
pub trait Policy {
    /// A block is asked for; whether it was there. It is there afterwards.
    fn touch(&mut self, block: u64) -> bool;

    /// A block is no longer needed.
    fn discard(&mut self, block: u64);
}
