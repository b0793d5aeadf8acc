//! `time_us,op,offset,size`: the format of the project's own traces.

use kickcache_engine::request::Durability;
use kickcache_engine::units::ByteExtent;

use crate::trace_file::format::fields::{fields, kind, number, time};
use crate::trace_file::format::line_parser::{LineParser, Parsed};
use crate::trace_file::record::Record;

pub(crate) const HEADER: &str = "time_us,op,offset,size";

pub(crate) struct Csv;

impl LineParser for Csv {
    fn parse(&mut self, line: &str) -> Result<Parsed, String> {
        if line.is_empty() {
            return Ok(Parsed::Nothing);
        }
        if line == HEADER {
            return Ok(Parsed::Header);
        }
        let fields = fields(line, 4)?;
        let at = if fields[0].is_empty() { None } else { Some(time(fields[0], 1_000)?) };
        let extent = ByteExtent { start: number(fields[2], "offset")?, length: number(fields[3], "size")? };
        Ok(Parsed::Record(Record {
            at,
            device: 0,
            kind: kind(fields[1])?,
            durability: Durability::Volatile,
            extent,
        }))
    }
}
