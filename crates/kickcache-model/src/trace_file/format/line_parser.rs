//! What reads the lines of a text format.

use crate::trace_file::record::Record;

/// What a line said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parsed {
    /// An access.
    Record(Record),
    /// A header, a comment, an event that is no access.
    Nothing,
    /// The records end here.
    End,
}

/// Turns lines into records; a text that says what is wrong with a line is its error.
pub(crate) trait LineParser {
    fn parse(&mut self, line: &str) -> Result<Parsed, String>;
}
