//! The lines of a text, each of bounded length.

use std::io::{BufRead, BufReader, Read};

use crate::trace_file::error::TraceError;

/// Longest line; a file without line ends is none of the texts.
const LENGTH_MAX: usize = 64 << 10;

/// Lines with their numbers.
pub(crate) struct Lines {
    reader: BufReader<Box<dyn Read>>,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    pub(crate) fn new(reader: Box<dyn Read>) -> Lines {
        Lines { reader: BufReader::with_capacity(64 << 10, reader), line: Vec::new(), number: 0 }
    }

    /// How many lines were read.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line without its end.
    pub(crate) fn next(&mut self) -> Option<Result<&str, TraceError>> {
        self.line.clear();
        let limit = LENGTH_MAX as u64 + 1;
        match self.reader.by_ref().take(limit).read_until(b'\n', &mut self.line) {
            Ok(0) => return None,
            Ok(_) => self.number += 1,
            Err(error) => return Some(Err(error.into())),
        }
        let number = self.number;
        if self.line.len() > LENGTH_MAX {
            let skipped = self.reader.skip_until(b'\n');
            return Some(Err(skipped.err().map_or_else(|| too_long(number), TraceError::from)));
        }
        let wrong = |_| TraceError::Line { number, what: "bytes that are no text were found".into() };
        Some(std::str::from_utf8(&self.line).map(str::trim_end).map_err(wrong))
    }
}

fn too_long(number: u64) -> TraceError {
    TraceError::Line { number, what: format!("more than {LENGTH_MAX} bytes were found before its end") }
}
