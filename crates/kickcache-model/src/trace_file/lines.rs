//! The lines of a text, each of bounded length.
//!
//! Each line is UTF-8 or Latin-1. Byte-order marks are ignored at the beginning of every line, because files
//! may be joined.

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read};

use crate::trace_file::error::TraceError;

/// Bytes of the longest line, with its end.
const LENGTH_MAX: usize = 64 << 10;
const BYTE_ORDER_MARK: char = '\u{feff}';

pub(crate) struct Lines {
    reader: BufReader<Box<dyn Read>>,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    pub(crate) fn new(reader: Box<dyn Read>) -> Lines {
        Lines { reader: BufReader::with_capacity(64 << 10, reader), line: Vec::new(), number: 0 }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn next(&mut self) -> Option<Result<Cow<'_, str>, TraceError>> {
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
        Some(Ok(text(self.line.trim_ascii_end())))
    }
}

/// Bytes as text, UTF-8 without byte-order marks at its beginning, or Latin-1.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text.trim_start_matches(BYTE_ORDER_MARK)),
        Err(_) => Cow::Owned(bytes.iter().map(|byte| char::from(*byte)).collect()),
    }
}

fn too_long(number: u64) -> TraceError {
    TraceError::Line { number, what: format!("more than {LENGTH_MAX} bytes were found before its end") }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn lines_are_utf_8_or_latin_1_without_bom() {
        let bytes = b"\xef\xbb\xbfa,b\r\n\xc3\xa4 1\n\xe4 2 \n\xef\xbb\xbfa,b".to_vec();
        let mut lines = Lines::new(Box::new(Cursor::new(bytes)));
        for expected in ["a,b", "ä 1", "ä 2", "a,b"] {
            assert_eq!(lines.next().unwrap().unwrap(), expected);
        }
        assert!(lines.next().is_none() && lines.number() == 4);
    }
}
