//! Recorded accesses of real programs: readers for the usual formats, one record at a time in bounded memory.
//!
//! The format is found by looking at the first lines, never by the file's name; compression by its first bytes. A
//! line that makes no sense is reported with its number, and the reader goes on behind it.

pub mod conversion;
mod decompress;
mod detect;
mod error;
pub mod folder;
mod format;
mod lines;
pub mod placed;
mod record;
pub mod survey;
mod trace_format;
mod zstd;

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

pub use crate::trace_file::error::TraceError;
pub use crate::trace_file::format::recording::header::RecordingHeader;
pub use crate::trace_file::format::recording::writer::RecordingEncoder;
pub use crate::trace_file::record::Record;
pub use crate::trace_file::trace_format::Format;

use crate::trace_file::format::blktrace::Blktrace;
use crate::trace_file::format::line_parser::{LineParser, Parsed};
use crate::trace_file::format::recording::reader::RecordingReader;
use crate::trace_file::lines::Lines;

/// Bytes that detection looks at.
const HEAD: u64 = 64 << 10;
/// The records of one trace, in the order of the file. Reading ends after an error of the file.
pub struct TraceFile {
    format: Format,
    source: TraceInput,
}

enum TraceInput {
    Text(Lines, Box<dyn LineParser>),
    Blktrace(Blktrace),
    Recording(RecordingReader),
    Ended,
}

impl TraceFile {
    /// Opens a trace; without a format, the one that fits the first lines.
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

    /// As [`TraceFile::open`], from anywhere.
    ///
    /// # Errors
    /// As [`TraceFile::open`].
    pub fn from_reader(reader: Box<dyn Read>, format: Option<Format>) -> Result<TraceFile, TraceError> {
        let mut plain = decompress::open(reader)?;
        let mut head = Vec::new();
        plain.by_ref().take(HEAD).read_to_end(&mut head)?;
        let format = match format {
            Some(format) => format,
            None if head.is_empty() => return Err(TraceError::Empty),
            None => detect::detect(&head).ok_or_else(|| TraceError::UnknownFormat(beginning(&head)))?,
        };
        let action = detect::action(format, &head);
        let whole = Box::new(Cursor::new(head).chain(plain));
        let source = match format::parser(format, action) {
            Some(parser) => TraceInput::Text(Lines::new(whole), parser),
            None if format == Format::Kickcache => TraceInput::Recording(RecordingReader::new(whole)),
            None => TraceInput::Blktrace(Blktrace::new(whole, action)),
        };
        Ok(TraceFile { format, source })
    }

    /// The format that is read.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Of a recording, its header, once a record was read.
    pub fn header(&self) -> Option<&RecordingHeader> {
        match &self.source {
            TraceInput::Recording(trace) => trace.header(),
            TraceInput::Text(..) | TraceInput::Blktrace(_) | TraceInput::Ended => None,
        }
    }

    /// Of a recording, how many records its recorder lost before what was read so far.
    pub fn lost(&self) -> u64 {
        match &self.source {
            TraceInput::Recording(trace) => trace.lost(),
            TraceInput::Text(..) | TraceInput::Blktrace(_) | TraceInput::Ended => 0,
        }
    }
}

/// The first line, as far as a sentence can quote it.
fn beginning(head: &[u8]) -> String {
    let text = String::from_utf8_lossy(head);
    text.lines().next().unwrap_or_default().chars().take(60).collect()
}

impl Iterator for TraceFile {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Result<Record, TraceError>> {
        let next = match &mut self.source {
            TraceInput::Text(lines, parser) => next_of_text(lines, parser.as_mut()),
            TraceInput::Blktrace(trace) => trace.next(),
            TraceInput::Recording(trace) => trace.next(),
            TraceInput::Ended => None,
        };
        // A recording goes on to tell what it is; at its end it gives nothing more by itself.
        let is_recording = matches!(self.source, TraceInput::Recording(_));
        if matches!(next, Some(Err(TraceError::Io(_)))) || (next.is_none() && !is_recording) {
            self.source = TraceInput::Ended;
        }
        next
    }
}

fn next_of_text(lines: &mut Lines, parser: &mut dyn LineParser) -> Option<Result<Record, TraceError>> {
    loop {
        let number = lines.number() + 1;
        let parsed = match lines.next()? {
            Ok(line) => parser.parse(line),
            Err(error) => return Some(Err(error)),
        };
        match parsed {
            Ok(Parsed::Record(record)) => {
                return Some(record.checked().map_err(|what| TraceError::Line { number, what }));
            }
            Ok(Parsed::Nothing) => {}
            Ok(Parsed::End) => return None,
            Err(what) => return Some(Err(TraceError::Line { number, what })),
        }
    }
}

#[cfg(test)]
mod tests;
