//! The format of `kickcache record`: the requests of a volume, in blocks with checksums that can be decoded
//! separately. docs/reference/trace-format.md documents every byte.
//!
//! A file that was cut off anywhere is read up to its last whole block; a damaged block costs its own records only, since the
//! reader looks for the mark of the next one. Files put together by `cat` are one trace.

pub(crate) mod block;
mod entry;
pub(crate) mod header;
pub(crate) mod reader;
mod varint;
pub(crate) mod writer;

pub(crate) fn is_recording(head: &[u8]) -> bool {
    head.starts_with(&header::MAGIC)
}

#[cfg(test)]
mod tests;
