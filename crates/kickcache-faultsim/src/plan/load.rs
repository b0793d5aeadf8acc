//! What clients ask for, how often and where.

/// Relative weights of what clients ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weights {
    /// Reads.
    pub read: u64,
    /// Writes.
    pub write: u64,
    /// Flushes.
    pub flush: u64,
    /// Discards.
    pub discard: u64,
    /// Write zeroes.
    pub zeroes: u64,
    /// Promotes.
    pub promote: u64,
    /// Of writes and write-zeroes, how many are FUA, in 1/1000.
    pub durable_permille: u64,
}

/// Sizes and alignment of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Largest request in bytes.
    pub length_max: u64,
    /// Requests at multiples of 512 that are no blocks, in 1/1000.
    pub sector_permille: u64,
    /// Requests at multiples of 32 bytes, in 1/1000.
    pub unaligned_permille: u64,
    /// Requests in the hot region, in 1/1000.
    pub hot_permille: u64,
    /// Blocks of the hot region.
    pub hot_blocks: u64,
    /// Clients that read or write in sequence, in 1/1000.
    pub sequential_permille: u64,
}
