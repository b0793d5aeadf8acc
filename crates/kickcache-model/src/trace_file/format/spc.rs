//! SPC (UMass Financial, WebSearch): `unit,block of 512 bytes,size,r|w,seconds`.

use kickcache_engine::units::ByteExtent;

use crate::trace_file::format::devices::Devices;
use crate::trace_file::format::fields::{fields, kind, number, sectors, time};
use crate::trace_file::format::line_parser::{LineParser, Parsed};

#[derive(Default)]
pub(crate) struct Spc {
    devices: Devices,
}

impl LineParser for Spc {
    fn parse(&mut self, line: &str) -> Result<Parsed, String> {
        if line.is_empty() {
            return Ok(Parsed::Nothing);
        }
        let fields = fields(line, 5)?;
        let device = self.devices.number(fields[0])?;
        let extent = ByteExtent { start: sectors(fields[1], "block")?, length: number(fields[2], "size")? };
        let at = time(fields[4], 1_000_000_000)?;
        Ok(Parsed::access(at, device, kind(fields[3])?, extent))
    }
}
