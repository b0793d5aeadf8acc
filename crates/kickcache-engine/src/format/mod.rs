//! Bytes on the cache device and the structs they stand for; `docs/format.md` is the one telling of the layout.

pub mod geometry;
pub mod superblock;
