//! Writes traces: records in one format become lines, or blocks, of another.
//!
//! Most properties that a target cannot express are refused, or counted as a [`Lack`], which the caller
//! reports.

mod iolog;
mod lack;
mod lines;
mod target;

use std::io::{self, Write};

use kickcache_engine::request::Durability;
use kickcache_engine::time::Duration;
use kickcache_engine::units::ByteExtent;
use thiserror::Error;

pub use crate::trace_file::conversion::lack::{Lack, Lacks};
pub use crate::trace_file::conversion::target::Target;

use crate::trace_file::conversion::iolog::Iolog;
use crate::trace_file::conversion::lines::line;
use crate::trace_file::format::csv;
use crate::trace_file::format::recording::header::RecordingHeader;
use crate::trace_file::format::recording::writer::RecordingEncoder;
use crate::trace_file::record::Record;
use crate::workload::Kind;

const SECTOR_BYTES: u64 = 512;

#[derive(Error, Debug)]
pub enum ConversionError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A record has no time, and the target needs one in each.
    #[error(
        "the trace has no times, and `{0}` has one in each record; `csv`, `iolog-v2` and `kickcache` do without"
    )]
    NoTimes(&'static str),
    /// A record is not of the first device, and the target cannot name devices.
    #[error(
        "the trace has more than one device, and `{0}` has no room for that; `kickcache`, `blkparse`, `iolog`, `msr`, \
         `spc`, `alibaba` and `tencent` have"
    )]
    Devices(&'static str),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Title {
    pub header: RecordingHeader,
    /// For fio: the file that represents the first device. The names of other devices have a number appended.
    pub file: String,
}

pub struct TraceWriter<W> {
    out: W,
    target: Target,
    shape: Shape,
    count: u64,
    lacks: Lacks,
}

enum Shape {
    Recording(RecordingEncoder),
    Iolog(Iolog),
    Lines,
}

impl<W: Write> TraceWriter<W> {
    /// # Errors
    /// If the write fails.
    pub fn new(mut out: W, target: Target, title: Title) -> io::Result<TraceWriter<W>> {
        let shape = match target {
            Target::Kickcache => {
                out.write_all(&title.header.to_bytes())?;
                Shape::Recording(RecordingEncoder::default())
            }
            Target::Iolog | Target::IologV2 => Shape::Iolog(Iolog::begin(&mut out, target, title.file)?),
            Target::Csv => {
                writeln!(out, "{}", csv::HEADER)?;
                Shape::Lines
            }
            Target::Blkparse | Target::Msr | Target::Spc | Target::Alibaba | Target::Tencent => Shape::Lines,
        };
        Ok(TraceWriter { out, target, shape, count: 0, lacks: Lacks::default() })
    }

    /// Writes the part of a record that the target can express, if there is one, and counts the properties that it
    /// cannot.
    ///
    /// # Errors
    /// If the write fails, or the target has no room for the trace.
    pub fn write(&mut self, record: &Record) -> Result<(), ConversionError> {
        self.refuse(record)?;
        let Some(record) = self.expressed(record) else { return Ok(()) };
        self.count += 1;
        match &mut self.shape {
            Shape::Recording(encoder) => {
                if let Some(block) = encoder.push(&record) {
                    self.out.write_all(&block)?;
                }
            }
            Shape::Iolog(log) => log.write(&mut self.out, &record)?,
            Shape::Lines => {
                let at = record.at.unwrap_or_default();
                writeln!(self.out, "{}", line(self.target, self.count, at, &record))?;
            }
        }
        Ok(())
    }

    /// Writes down that the recorder lost records here, if the target can express this; otherwise counts them.
    ///
    /// # Errors
    /// If the write fails.
    pub fn lose(&mut self, count: u64) -> io::Result<()> {
        match &mut self.shape {
            Shape::Recording(encoder) => {
                encoder.lose(count).map_or(Ok(()), |block| self.out.write_all(&block))
            }
            Shape::Iolog(_) | Shape::Lines => {
                self.lacks.add_many(Lack::Lost, count);
                Ok(())
            }
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Writes the end of the trace; returns the file, and the counts of properties that its format cannot express.
    ///
    /// # Errors
    /// If the write fails.
    pub fn finish(mut self) -> io::Result<(W, Lacks)> {
        match &mut self.shape {
            Shape::Recording(encoder) => {
                if let Some(block) = encoder.finish() {
                    self.out.write_all(&block)?;
                }
            }
            Shape::Iolog(log) => log.end(&mut self.out)?,
            Shape::Lines => {}
        }
        self.out.flush()?;
        Ok((self.out, self.lacks))
    }

    fn refuse(&self, record: &Record) -> Result<(), ConversionError> {
        if record.at.is_none() && self.target.needs_times() {
            return Err(ConversionError::NoTimes(self.target.name()));
        }
        if record.device > 0 && !self.target.has_devices() {
            return Err(ConversionError::Devices(self.target.name()));
        }
        Ok(())
    }

    fn expressed(&mut self, record: &Record) -> Option<Record> {
        let mut record = *record;
        let lacks = self.target.lacks();
        let mut is_lacking = |lack: Lack| {
            let is_missing = lacks.contains(&lack);
            self.lacks.add_many(lack, u64::from(is_missing));
            is_missing
        };
        match record.kind {
            Kind::Flush if is_lacking(Lack::Flush) => return None,
            Kind::Discard if is_lacking(Lack::Discard) => return None,
            Kind::WriteZeroes if is_lacking(Lack::Zeroes) => record.kind = Kind::Write,
            Kind::Read | Kind::Write | Kind::Flush | Kind::Discard | Kind::WriteZeroes => {}
        }
        if record.durability == Durability::Durable && is_lacking(Lack::Fua) {
            record.durability = Durability::Volatile;
        }
        let is_whole = |bytes: u64| bytes.is_multiple_of(SECTOR_BYTES);
        let ByteExtent { start, length } = record.extent;
        if !(is_whole(start) && is_whole(length)) && is_lacking(Lack::Sector) {
            record.extent = whole_sectors(record.extent);
        }
        if record.at.is_some() && is_lacking(Lack::Time) {
            record.at = None;
        }
        let is_second = |at: Duration| at.as_nanos().is_multiple_of(1_000_000_000);
        if record.at.is_some_and(|at| !is_second(at)) {
            is_lacking(Lack::Second);
        }
        Some(record)
    }
}

fn whole_sectors(extent: ByteExtent) -> ByteExtent {
    let start = extent.start / SECTOR_BYTES * SECTOR_BYTES;
    let end = extent.end().next_multiple_of(SECTOR_BYTES);
    ByteExtent { start, length: end - start }
}

#[cfg(test)]
mod tests;
