//! Recorded accesses of real programs: readers for the usual formats, one record at a time in bounded memory.
//!
//! The format is found by looking at the first lines, never by the file's name; compression by its first bytes. A
//! line that makes no sense is reported with its number, and the reader goes on behind it.

mod decompress;
mod detect;
mod format;
mod lines;
pub mod survey;
mod zstd;

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use kickcache_engine::time::Duration;
use kickcache_engine::units::ByteExtent;
use thiserror::Error;

use crate::trace_file::format::blktrace::Blktrace;
use crate::trace_file::format::{LineParser, Parsed};
use crate::trace_file::lines::Lines;
use crate::workload::Kind;

/// Bytes that detection looks at.
const HEAD: u64 = 64 << 10;
/// Addresses from here on are refused: no volume is that large.
const OFFSET_MAX: u64 = 1 << 52;
/// Longest access.
const LENGTH_MAX: u64 = 1 << 30;

/// A format of traces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// CSV with the header `time_us,op,offset,size`.
    Csv,
    /// The text that `blkparse` prints.
    Blkparse,
    /// The binary files that `blktrace` writes.
    Blktrace,
    /// fio's I/O log, version 2 or 3.
    Iolog,
    /// CSV of MSR Cambridge: time in 100 ns, host, disk, Read or Write, offset, size, response time.
    Msr,
    /// SPC: unit, block of 512 bytes, size, r or w, seconds.
    Spc,
    /// Alibaba 2020: device, R or W, offset, size, microseconds.
    Alibaba,
    /// Tencent CBS: seconds, sector, sectors, 0 or 1, volume.
    Tencent,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 8] = [
        Format::Csv,
        Format::Blkparse,
        Format::Blktrace,
        Format::Iolog,
        Format::Msr,
        Format::Spc,
        Format::Alibaba,
        Format::Tencent,
    ];

    /// The name that people type.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Blkparse => "blkparse",
            Format::Blktrace => "blktrace",
            Format::Iolog => "iolog",
            Format::Msr => "msr",
            Format::Spc => "spc",
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
        }
    }
}

/// One access of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When it was made, from a zero that only the trace knows; `None` where the trace has no times.
    pub at: Option<Duration>,
    /// On which of the trace's devices, numbered in the order of their first records.
    pub device: u32,
    /// What it does.
    pub kind: Kind,
    /// Where on that device; empty for flushes.
    pub extent: ByteExtent,
}

/// What is wrong with a trace.
#[derive(Error, Debug)]
pub enum TraceError {
    /// The file cannot be read on.
    #[error("the trace cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A pipe, say: it would be read once, and a trace is read several times.
    #[error("it is no regular file, and a trace is read more than once; write it to a file first")]
    NotAFile,
    /// No format fits the first lines.
    #[error("none of the formats fits the beginning of the file ({0:?}); name one: {names}", names = names())]
    UnknownFormat(String),
    /// A line, or for binary traces a record, makes no sense; reading goes on behind it.
    #[error("line {number}: {what}")]
    Line {
        /// Its number from 1.
        number: u64,
        /// What was found, and what was expected.
        what: String,
    },
}

fn names() -> String {
    Format::ALL.map(Format::name).join(", ")
}

/// The records of one trace, in the order of the file. Reading ends after an error of the file.
pub struct TraceFile {
    format: Format,
    source: Source,
}

enum Source {
    Text(Lines, Box<dyn LineParser>),
    Binary(Blktrace),
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
            None => detect::detect(&head).ok_or_else(|| TraceError::UnknownFormat(beginning(&head)))?,
        };
        let action = detect::action(format, &head);
        let whole = Box::new(Cursor::new(head).chain(plain));
        let source = match format::parser(format, action) {
            Some(parser) => Source::Text(Lines::new(whole), parser),
            None => Source::Binary(Blktrace::new(whole, action)),
        };
        Ok(TraceFile { format, source })
    }

    /// The format that is read.
    pub fn format(&self) -> Format {
        self.format
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
            Source::Text(lines, parser) => next_of_text(lines, parser.as_mut()),
            Source::Binary(trace) => trace.next(),
            Source::Ended => None,
        };
        if matches!(next, None | Some(Err(TraceError::Io(_)))) {
            self.source = Source::Ended;
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
                return Some(checked(record).map_err(|what| TraceError::Line { number, what }));
            }
            Ok(Parsed::Nothing) => {}
            Ok(Parsed::End) => return None,
            Err(what) => return Some(Err(TraceError::Line { number, what })),
        }
    }
}

/// A record, if a volume can hold what it names.
fn checked(record: Record) -> Result<Record, String> {
    let ByteExtent { start, length } = record.extent;
    if record.kind != Kind::Flush && length == 0 {
        return Err("an access of 0 bytes; at least one was expected".into());
    }
    if length > LENGTH_MAX || start > OFFSET_MAX {
        return Err(format!("{length} bytes at offset {start}; at most 1 GiB, below 4 PiB, was expected"));
    }
    Ok(record)
}

#[cfg(test)]
mod tests;
