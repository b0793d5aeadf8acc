//! Makes recordings: records in, whole blocks out.

use crate::trace_file::format::recording::block::{Head, Packer};
use crate::trace_file::format::recording::entry::Previous;
use crate::trace_file::record::Record;

/// The least bytes of unpacked records that fill a block.
const BODY_BYTES: usize = 32 << 10;

#[derive(Debug, Default)]
pub struct RecordingEncoder {
    body: Vec<u8>,
    record_count: u32,
    base: u64,
    lost: u64,
    previous: Previous,
    packer: Packer,
}

impl RecordingEncoder {
    /// Adds a record; returns a block if its records fill one.
    pub fn push(&mut self, record: &Record) -> Option<Vec<u8>> {
        if self.record_count == 0 {
            self.base = record.at.map_or(self.previous.at, |at| at.as_nanos());
            self.previous = Previous::new(self.base);
        }
        self.previous.put(&mut self.body, record);
        self.record_count += 1;
        if self.body.len() >= BODY_BYTES { self.finish() } else { None }
    }

    /// Adds to the number of records that were lost here; returns the block of the records before them, if there are any.
    pub fn lose(&mut self, count: u64) -> Option<Vec<u8>> {
        let before = if self.record_count > 0 { self.finish() } else { None };
        self.lost += count;
        before
    }

    /// The block of the collected records; `None` if there are neither records nor losses.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        if self.record_count == 0 && self.lost == 0 {
            return None;
        }
        let body = self.packer.pack(&self.body);
        let head = Head::of_body(self.record_count, self.lost, self.base, self.body.len(), &body);
        (self.record_count, self.lost) = (0, 0);
        self.body.clear();
        let mut block = head.to_bytes().to_vec();
        block.extend(body.bytes);
        Some(block)
    }
}
