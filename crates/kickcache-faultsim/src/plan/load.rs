//! The requests of clients: kinds, frequency and places.

/// Relative weights of the kinds of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weights {
    pub read: u64,
    pub write: u64,
    pub flush: u64,
    pub discard: u64,
    pub zeroes: u64,
    pub promote: u64,
    /// FUA requests, in 1/1000 of the write-zeroes and of the writes outside of streams.
    pub durable_permille: u64,
}

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
    pub hot_blocks: u64,
    /// Clients that read or write in sequence, in 1/1000.
    pub sequential_permille: u64,
}
