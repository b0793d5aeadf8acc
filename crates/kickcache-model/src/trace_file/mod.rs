//! Recorded accesses of real programs: readers for the usual formats, in the order of their times and in bounded memory.
//!
//! The format, if it is not given, is detected from the beginning of the file. An invalid line is reported
//! with its number, and the reader continues behind it.

mod archive;
pub mod conversion;
mod decompress;
mod detect;
mod error;
mod event;
pub mod folder;
mod format;
mod lines;
pub mod placement;
mod record;
mod source;
pub mod survey;
mod time_order;
mod trace_format;
mod zstd;

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

pub use crate::trace_file::error::TraceError;
pub use crate::trace_file::format::recording::header::RecordingHeader;
pub use crate::trace_file::format::recording::writer::RecordingEncoder;
pub use crate::trace_file::record::Record;
pub use crate::trace_file::time_order::TimeRepairs;
pub use crate::trace_file::trace_format::Format;

use crate::quote::quote;
use crate::trace_file::event::Event;
use crate::trace_file::source::Source;
use crate::trace_file::time_order::{Ordered, TimeOrder};

/// The number of first bytes of a file, after decompression, that decide on its format.
const HEAD: u64 = 64 << 10;

/// The records of one trace, in the order of their times. Reading ends after an error of the file.
pub struct TraceFile {
    format: Format,
    source: Source,
    order: TimeOrder,
    /// The rest of a long discard or write of zeroes.
    rest: Option<Record>,
    lost: u64,
    has_records: bool,
    first_wrong: Option<String>,
    end: Option<End>,
}

enum End {
    Reached,
    Failed(TraceError),
}

impl TraceFile {
    /// Opens a trace; without a format, it detects one from the beginning of the file.
    ///
    /// # Errors
    /// If the file cannot be read or is no regular one, or no format fits.
    pub fn open(path: &Path, format: Option<Format>) -> Result<TraceFile, TraceError> {
        let metadata = std::fs::metadata(path)?;
        if !metadata.is_file() && !metadata.is_dir() {
            return Err(TraceError::NotAFile);
        }
        TraceFile::from_reader(Box::new(File::open(path)?), format)
    }

    /// As [`TraceFile::open`], from a reader.
    ///
    /// # Errors
    /// As [`TraceFile::open`].
    pub fn from_reader(reader: Box<dyn Read>, format: Option<Format>) -> Result<TraceFile, TraceError> {
        let mut plain = decompress::open(reader)?;
        let mut head = Vec::new();
        plain.by_ref().take(HEAD).read_to_end(&mut head)?;
        if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
            return Err(TraceError::Utf16);
        }
        let format = match format {
            Some(format) => format,
            None if head.is_empty() => return Err(TraceError::Empty),
            None => detect::detect(&head).ok_or_else(|| TraceError::UnknownFormat(beginning(&head)))?,
        };
        let action = detect::action(format, &head);
        let source = Source::new(format, action, Box::new(Cursor::new(head).chain(plain)));
        Ok(TraceFile {
            format,
            source,
            order: TimeOrder::default(),
            rest: None,
            lost: 0,
            has_records: false,
            first_wrong: None,
            end: None,
        })
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// The first valid header of a recording, once it was read; `None` for other formats.
    pub fn header(&self) -> Option<&RecordingHeader> {
        self.source.header()
    }

    /// For a recording, the number of records that its recorder lost before the present position.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The changes to the times so far. Reading is up to a window ahead of the records that were returned.
    pub fn repairs(&self) -> TimeRepairs {
        self.order.repairs()
    }

    fn return_piece(&mut self, mut record: Record) -> Record {
        self.rest = record.cut_piece();
        self.has_records = true;
        record
    }

    fn step(&mut self) -> Option<TraceError> {
        let end = match self.source.next() {
            Some(Ok(Event::Header)) => {
                self.order.push_header();
                return None;
            }
            Some(Ok(Event::Access { record, stream })) => {
                let ordered = Ordered { record, lost: self.source.lost() };
                match self.order.push(ordered, stream) {
                    Ok(()) => return None,
                    Err(what) => End::Failed(TraceError::Times(what)),
                }
            }
            Some(Err(error)) if error.is_local() => {
                self.first_wrong.get_or_insert_with(|| error.to_string());
                return Some(error);
            }
            Some(Err(error)) => End::Failed(error),
            None => End::Reached,
        };
        self.order.finish();
        self.end = Some(end);
        None
    }

    fn final_error(&mut self) -> Option<TraceError> {
        self.lost = self.source.lost();
        if let Some(End::Failed(error)) = self.end.replace(End::Reached) {
            self.has_records = true;
            return Some(error);
        }
        let count = self.source.part_count();
        if self.has_records || count == 0 {
            return None;
        }
        let part = self.source.part_name();
        self.has_records = true;
        let parts = if count == 1 { format!("one {part}") } else { format!("any of {count} {part}s") };
        Some(TraceError::NoRecords { parts, wrong: self.first_wrong.take() })
    }
}

fn beginning(head: &[u8]) -> String {
    let text = lines::text(head);
    quote(text.lines().next().unwrap_or_default())
}

impl Iterator for TraceFile {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Result<Record, TraceError>> {
        loop {
            if let Some(rest) = self.rest.take() {
                return Some(Ok(self.return_piece(rest)));
            }
            if let Some(Ordered { record, lost }) = self.order.pop() {
                self.lost = self.lost.max(lost);
                return Some(Ok(self.return_piece(record)));
            }
            if self.end.is_some() {
                return self.final_error().map(Err);
            }
            if let Some(error) = self.step() {
                return Some(Err(error));
            }
        }
    }
}

#[cfg(test)]
mod tests;
