//! A file as the events of its format.

use std::io::Read;

use crate::trace_file::error::TraceError;
use crate::trace_file::event::Event;
use crate::trace_file::format::action::Action;
use crate::trace_file::format::blktrace::Blktrace;
use crate::trace_file::format::line_parser::{LineParser, Parsed};
use crate::trace_file::format::parser;
use crate::trace_file::format::recording::header::RecordingHeader;
use crate::trace_file::format::recording::reader::RecordingReader;
use crate::trace_file::lines::Lines;
use crate::trace_file::trace_format::Format;

pub(crate) enum Source {
    Text(Lines, Box<dyn LineParser>),
    Blktrace(Blktrace),
    Recording(RecordingReader),
}

impl Source {
    pub(crate) fn new(format: Format, action: Action, reader: Box<dyn Read>) -> Source {
        match parser(format, action) {
            Some(parser) => Source::Text(Lines::new(reader), parser),
            None if format == Format::Kickcache => Source::Recording(RecordingReader::new(reader)),
            None => Source::Blktrace(Blktrace::new(reader, action)),
        }
    }

    pub(crate) fn next(&mut self) -> Option<Result<Event, TraceError>> {
        match self {
            Source::Text(lines, parser) => next_of_text(lines, parser.as_mut()),
            Source::Blktrace(trace) => trace.next().map(|noted| {
                // The numbers of devices and processors are small.
                noted.map(|noted| Event::Access {
                    record: noted.record,
                    stream: u64::from(noted.record.device) << 32 | u64::from(noted.cpu),
                })
            }),
            Source::Recording(trace) => trace.next(),
        }
    }

    pub(crate) fn header(&self) -> Option<&RecordingHeader> {
        match self {
            Source::Recording(trace) => trace.header(),
            Source::Text(..) | Source::Blktrace(_) => None,
        }
    }

    /// The number of records that the recorder of a recording lost so far; 0 for other formats.
    pub(crate) fn lost(&self) -> u64 {
        match self {
            Source::Recording(trace) => trace.lost(),
            Source::Text(..) | Source::Blktrace(_) => 0,
        }
    }

    /// The lines or blktrace records that were read so far; 0 for a recording, which may be empty.
    pub(crate) fn part_count(&self) -> u64 {
        match self {
            Source::Text(lines, _) => lines.number(),
            Source::Blktrace(trace) => trace.number(),
            Source::Recording(_) => 0,
        }
    }

    pub(crate) fn part_name(&self) -> &'static str {
        match self {
            Source::Text(..) => "line",
            Source::Blktrace(_) | Source::Recording(_) => "record",
        }
    }
}

fn next_of_text(lines: &mut Lines, parser: &mut dyn LineParser) -> Option<Result<Event, TraceError>> {
    loop {
        let number = lines.number() + 1;
        let parsed = match lines.next()? {
            Ok(line) => parser.parse(&line),
            Err(error) => return Some(Err(error)),
        };
        let wrong = |what| TraceError::Line { number, what };
        match parsed {
            Ok(Parsed::Record(record)) => return Some(record.checked().map(Event::of_device).map_err(wrong)),
            Ok(Parsed::Header) => return Some(Ok(Event::Header)),
            Ok(Parsed::Nothing) => {}
            Err(what) => return Some(Err(wrong(what))),
        }
    }
}
