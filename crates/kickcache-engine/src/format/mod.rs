//! Bytes on the cache device and their structs, as in `docs/reference/format.md`.
//!
//! Numbers are little-endian. Every structure starts with a magic number and a CRC32C over all of its bytes, with the
//! four bytes of the checksum as zero. Decoders read untrusted bytes: they never panic and never trust a length.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

pub mod batch;
pub mod bytes;
pub mod durable;
pub mod durable_blocks;
pub mod durable_range;
pub mod geometry;
pub mod growth;
pub mod journal;
pub mod mark;
pub mod redo;
pub mod succession;
pub mod summary;
pub mod superblock;
pub mod takeover;
pub mod version;

#[cfg(test)]
mod tests;
