//! Reads recordings block by block.

use std::collections::VecDeque;
use std::io::{self, Read};

use kickcache_engine::time::Duration;

use crate::trace_file::error::TraceError;
use crate::trace_file::event::Event;
use crate::trace_file::format::recording::block::{HEAD_BYTES, Head};
use crate::trace_file::format::recording::entry::Previous;
use crate::trace_file::format::recording::header::{self, FIXED_BYTES, RecordingHeader};
use crate::trace_file::record::Record;

const READ_BYTES: u64 = 64 << 10;

/// Memory is bounded by the largest block.
pub(crate) struct RecordingReader {
    reader: Box<dyn Read>,
    window: Vec<u8>,
    offset: u64,
    is_at_end: bool,
    first: Option<RecordingHeader>,
    /// Whether a second or later header was just read, and is still to be returned as an event.
    is_joint: bool,
    /// Nanoseconds from the start of the first recording of the file to the start of the present one; 0 if
    /// either start is unknown, or the present one is earlier.
    later: u64,
    records: VecDeque<Record>,
    lost: u64,
}

impl RecordingReader {
    pub(crate) fn new(reader: Box<dyn Read>) -> RecordingReader {
        RecordingReader {
            reader,
            window: Vec::new(),
            offset: 0,
            is_at_end: false,
            first: None,
            is_joint: false,
            later: 0,
            records: VecDeque::new(),
            lost: 0,
        }
    }

    /// The first valid header of the file, once it was read.
    pub(crate) fn header(&self) -> Option<&RecordingHeader> {
        self.first.as_ref()
    }

    /// Records that the recorder lost before the present position.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    pub(crate) fn next(&mut self) -> Option<Result<Event, TraceError>> {
        loop {
            if std::mem::take(&mut self.is_joint) {
                return Some(Ok(Event::Header));
            }
            if let Some(record) = self.records.pop_front() {
                let damaged = |what| TraceError::Damaged { offset: self.offset, what };
                return Some(record.checked().map(Event::of_device).map_err(damaged));
            }
            match self.step() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn step(&mut self) -> Result<bool, TraceError> {
        self.fill(HEAD_BYTES)?;
        if self.window.is_empty() {
            return Ok(false);
        }
        if self.window.starts_with(&header::MAGIC) {
            return self.take_header().map(|()| true);
        }
        match Head::of(&self.window) {
            Some(head) => self.take_block(head).map(|()| true),
            None => Err(self.skip("no block begins there")?),
        }
    }

    fn take_header(&mut self) -> Result<(), TraceError> {
        self.fill(FIXED_BYTES)?;
        if self.window.len() >= FIXED_BYTES {
            self.fill(header::length(&self.window))?;
        }
        let header = match RecordingHeader::of(&self.window) {
            Ok(header) => header,
            Err(what) => return Err(self.skip(&what)?),
        };
        self.use_up(header::length(&self.window));
        self.is_joint = self.first.is_some();
        let first = self.first.get_or_insert_with(|| header.clone());
        // Times in all files of a recording count from the same start; the times of another recording that follows are moved.
        let is_known = header.started > 0 && first.started > 0;
        self.later = if is_known { header.started.saturating_sub(first.started) } else { 0 };
        Ok(())
    }

    fn take_block(&mut self, head: Head) -> Result<(), TraceError> {
        let length = HEAD_BYTES + usize::try_from(head.packed_bytes).expect("at most 1 MiB");
        self.fill(length)?;
        self.lost += head.lost;
        let Some(body) = self.window.get(HEAD_BYTES..length) else {
            return Err(
                self.skip(&format!("the file is cut off in a block of {} records", head.record_count))?
            );
        };
        let records = head.unpack(body).and_then(|plain| decode(&head, &plain, self.later));
        let offset = self.offset;
        self.use_up(length);
        self.records = records.map_err(|what| {
            let count = head.record_count;
            TraceError::Damaged { offset, what: format!("a block of {count} records is damaged: {what}") }
        })?;
        Ok(())
    }

    /// Skips invalid bytes up to the next block or header; returns the defect.
    fn skip(&mut self, what: &str) -> Result<TraceError, TraceError> {
        let wrong = TraceError::Damaged { offset: self.offset, what: what.into() };
        self.use_up(1);
        loop {
            self.fill(HEAD_BYTES)?;
            let is_mark = |at: &usize| {
                let rest = &self.window[*at..];
                rest.starts_with(&header::MAGIC) || Head::of(rest).is_some()
            };
            // A head that reaches beyond the window is examined again after more bytes were read.
            let seen = self.window.len().saturating_sub(HEAD_BYTES - 1);
            let end = if self.is_at_end { self.window.len() } else { seen };
            if let Some(found) = (0..end).find(is_mark) {
                self.use_up(found);
                return Ok(wrong);
            }
            self.use_up(end);
            if self.is_at_end {
                return Ok(wrong);
            }
        }
    }

    fn fill(&mut self, length: usize) -> Result<(), TraceError> {
        while self.window.len() < length && !self.is_at_end {
            let before = self.window.len();
            match self.reader.by_ref().take(READ_BYTES).read_to_end(&mut self.window) {
                Ok(_) => self.is_at_end = self.window.len() == before,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn use_up(&mut self, length: usize) {
        self.window.drain(..length);
        self.offset += length as u64;
    }
}

fn decode(head: &Head, plain: &[u8], later: u64) -> Result<VecDeque<Record>, &'static str> {
    let mut previous = Previous::new(head.base);
    let mut rest = plain;
    let mut records = VecDeque::new();
    for _ in 0..head.record_count {
        let record = previous.take(&mut rest).ok_or("a record in it makes no sense")?;
        let at = record.at.map(|at| Duration::from_nanos(at.as_nanos().saturating_add(later)));
        records.push_back(Record { at, ..record });
    }
    if rest.is_empty() { Ok(records) } else { Err("it holds more than its records") }
}
