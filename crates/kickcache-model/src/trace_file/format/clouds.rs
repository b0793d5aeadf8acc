//! The traces of two cloud providers: Alibaba (`device,R|W,offset,size,microseconds`) and Tencent
//! (`seconds,sector,sectors,0|1,volume`).

use kickcache_engine::units::ByteExtent;

use crate::quote::quote;
use crate::trace_file::format::devices::Devices;
use crate::trace_file::format::fields::{fields, kind, number, sectors, time};
use crate::trace_file::format::line_parser::{LineParser, Parsed};
use crate::workload::Kind;

#[derive(Default)]
pub(crate) struct Alibaba {
    devices: Devices,
}

impl LineParser for Alibaba {
    fn parse(&mut self, line: &str) -> Result<Parsed, String> {
        if line.is_empty() {
            return Ok(Parsed::Nothing);
        }
        if line.starts_with("device_id") {
            return Ok(Parsed::Header);
        }
        let fields = fields(line, 5)?;
        let device = self.devices.number(fields[0])?;
        let extent = ByteExtent { start: number(fields[2], "offset")?, length: number(fields[3], "size")? };
        let at = time(fields[4], 1_000)?;
        Ok(Parsed::access(at, device, kind(fields[1])?, extent))
    }
}

#[derive(Default)]
pub(crate) struct Tencent {
    devices: Devices,
}

impl LineParser for Tencent {
    fn parse(&mut self, line: &str) -> Result<Parsed, String> {
        if line.is_empty() {
            return Ok(Parsed::Nothing);
        }
        if line.starts_with("Timestamp") {
            return Ok(Parsed::Header);
        }
        let fields = fields(line, 5)?;
        let kind = match fields[3] {
            "0" => Kind::Read,
            "1" => Kind::Write,
            other => {
                return Err(format!(
                    "operation {} was found; 0 (read) or 1 (write) was expected",
                    quote(other)
                ));
            }
        };
        let device = self.devices.number(fields[4])?;
        let extent = ByteExtent { start: sectors(fields[1], "sector")?, length: sectors(fields[2], "size")? };
        let at = time(fields[0], 1_000_000_000)?;
        Ok(Parsed::access(at, device, kind, extent))
    }
}
