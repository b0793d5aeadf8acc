//! MSR Cambridge: `time,host,disk,Read|Write,offset,size,response`, times in 100 ns since 1601.

use kickcache_engine::units::ByteExtent;

use crate::trace_file::format::devices::Devices;
use crate::trace_file::format::fields::{fields, kind, number, time};
use crate::trace_file::format::line_parser::{LineParser, Parsed};

#[derive(Default)]
pub(crate) struct Msr {
    devices: Devices,
    first: Option<u64>,
}

impl LineParser for Msr {
    fn parse(&mut self, line: &str) -> Result<Parsed, String> {
        if line.is_empty() {
            return Ok(Parsed::Nothing);
        }
        if line.starts_with("Timestamp") {
            return Ok(Parsed::Header);
        }
        let fields = fields(line, 6)?;
        // Nanoseconds since 1601 are close to the end of 64 bits: times count from the earliest record so far.
        let ticks = number(fields[0], "time")?;
        let first = self.first.insert(self.first.map_or(ticks, |first| first.min(ticks)));
        let since = ticks - *first;
        let device = self.devices.number(&format!("{}.{}", fields[1], fields[2]))?;
        let extent = ByteExtent { start: number(fields[4], "offset")?, length: number(fields[5], "size")? };
        let at = time(&since.to_string(), 100)?;
        Ok(Parsed::access(at, device, kind(fields[3])?, extent))
    }
}
