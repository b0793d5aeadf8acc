//! The requests of clients: kinds, frequency and places.

/// Relative weights of the kinds of requests.
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
    /// FUA requests, in 1/1000 of the write-zeroes and of the writes outside of streams.
    pub durable_permille: u64,
}

/// Sizes and alignment of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Largest request in bytes, except for some discards and write-zeroes, and for clients that read or write in
    /// sequence.
    pub length_max: u64,
    /// Requests at multiples of 512 bytes, in 1/1000 of the requests that `unaligned_permille` leaves.
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
