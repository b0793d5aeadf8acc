//! The errors of a trace.

use std::io;

use thiserror::Error;

use crate::trace_file::trace_format::Format;

#[derive(Error, Debug)]
pub enum TraceError {
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A pipe, for example: it can be read only once.
    #[error("it is no regular file, and a trace is read more than once; write it to a file first")]
    NotAFile,
    #[error("it is empty, and a trace was expected; if its recorder had nothing to record, name its format: {names}", names = names())]
    Empty,
    #[error("none of the formats fits the beginning of the file ({0}); name one: {names}", names = names())]
    UnknownFormat(String),
    /// UTF-16, as Windows writes it.
    #[error("it is UTF-16, and UTF-8 was expected; convert it with `iconv -f UTF-16 -t UTF-8`")]
    Utf16,
    #[error("{0}")]
    Times(String),
    #[error("no access was found in {parts}{}; name its format, or another file", .wrong.as_ref().map(|wrong| format!(" ({wrong})")).unwrap_or_default())]
    NoRecords {
        /// The number of lines or records, as a phrase.
        parts: String,
        wrong: Option<String>,
    },
    /// A part of a recording is invalid; reading continues behind it.
    #[error("at byte {offset}: {what}")]
    Damaged {
        /// A place in the recording, in bytes.
        offset: u64,
        what: String,
    },
    /// A line, or for binary traces a record, is invalid; reading continues behind it.
    #[error("line {number}: {what}")]
    Line {
        /// The number of the line or record, from 1.
        number: u64,
        what: String,
    },
}

impl TraceError {
    /// Whether the error costs only a part of the trace, so that reading continues behind it.
    pub fn is_local(&self) -> bool {
        matches!(self, TraceError::Line { .. } | TraceError::Damaged { .. })
    }
}

fn names() -> String {
    Format::ALL.map(Format::name).join(", ")
}
