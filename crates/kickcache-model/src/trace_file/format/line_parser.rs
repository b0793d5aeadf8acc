//! What reads the lines of a text format.

use kickcache_engine::request::Durability;
use kickcache_engine::time::Duration;
use kickcache_engine::units::ByteExtent;

use crate::trace_file::record::Record;
use crate::workload::Kind;

/// What a line said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parsed {
    /// An access.
    Record(Record),
    /// A comment, an event that is no access.
    Nothing,
    /// A header or a summary: another recording may follow.
    Header,
}

impl Parsed {
    /// An access at a time, in a format that knows no FUA.
    pub(crate) const fn access(at: Duration, device: u32, kind: Kind, extent: ByteExtent) -> Parsed {
        Parsed::Record(Record { at: Some(at), device, kind, durability: Durability::Volatile, extent })
    }
}

/// Turns lines into records; a text that says what is wrong with a line is its error.
pub(crate) trait LineParser {
    fn parse(&mut self, line: &str) -> Result<Parsed, String>;
}
