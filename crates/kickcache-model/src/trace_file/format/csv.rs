//! `time_us,op,offset,size`: the format of the project's own traces.

use kickcache_engine::units::ByteExtent;

use crate::trace_file::Record;
use crate::trace_file::format::{LineParser, Parsed, fields, number, time};
use crate::workload::Kind;

/// The first line.
pub(crate) const HEADER: &str = "time_us,op,offset,size";

pub(crate) struct Csv;

impl LineParser for Csv {
    fn parse(&mut self, line: &str) -> Result<Parsed, String> {
        if line.is_empty() || line == HEADER {
            return Ok(Parsed::Nothing);
        }
        let fields = fields(line, 4)?;
        let at = if fields[0].is_empty() { None } else { Some(time(fields[0], 1_000)?) };
        let extent = ByteExtent { start: number(fields[2], "offset")?, length: number(fields[3], "size")? };
        Ok(Parsed::Record(Record { at, device: 0, kind: kind(fields[1])?, extent }))
    }
}

/// R, W, D or F, of either case, or a word that begins so.
pub(crate) fn kind(text: &str) -> Result<Kind, String> {
    match text.bytes().next().map(|letter| letter.to_ascii_uppercase()) {
        Some(b'R') => Ok(Kind::Read),
        Some(b'W') => Ok(Kind::Write),
        Some(b'D') => Ok(Kind::Discard),
        Some(b'F') => Ok(Kind::Flush),
        _ => Err(format!("operation {text:?} was found; R or W was expected")),
    }
}
