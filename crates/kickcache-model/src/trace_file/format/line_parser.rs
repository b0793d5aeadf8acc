//! The interface of the readers of text formats.

use kickcache_engine::request::Durability;
use kickcache_engine::time::Duration;
use kickcache_engine::units::ByteExtent;

use crate::trace_file::record::Record;
use crate::workload::Kind;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parsed {
    Record(Record),
    /// An empty line, or another line without an access.
    Nothing,
    /// A header or a summary: another recording may follow.
    Header,
}

impl Parsed {
    /// An access at a time, in a format without FUA.
    pub(crate) const fn access(at: Duration, device: u32, kind: Kind, extent: ByteExtent) -> Parsed {
        Parsed::Record(Record { at: Some(at), device, kind, durability: Durability::Volatile, extent })
    }
}

/// Turns lines into records; the error is a text that names the defect of the line.
pub(crate) trait LineParser {
    fn parse(&mut self, line: &str) -> Result<Parsed, String>;
}
