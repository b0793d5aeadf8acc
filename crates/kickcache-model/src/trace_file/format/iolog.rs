//! fio's I/O log: version 3 with times in microseconds, version 2 with waits instead.

use kickcache_engine::time::Duration;
use kickcache_engine::units::ByteExtent;

use crate::quote::quote;
use crate::trace_file::format::devices::Devices;
use crate::trace_file::format::fields::{number, time};
use crate::trace_file::format::line_parser::{LineParser, Parsed};
use crate::workload::Kind;

pub(crate) const HEADER: &str = "fio version ";

#[derive(Default)]
pub(crate) struct Iolog {
    devices: Devices,
    has_times: bool,
    /// The waits so far of a log of version 2, in microseconds.
    waited: u64,
}

impl LineParser for Iolog {
    fn parse(&mut self, line: &str) -> Result<Parsed, String> {
        if let Some(version) = line.strip_prefix(HEADER) {
            self.has_times = match version {
                "2 iolog" => false,
                "3 iolog" => true,
                other => return Err(format!("{} was found; version 2 or 3 was expected", quote(other))),
            };
            return Ok(Parsed::Header);
        }
        let mut words = line.split_whitespace();
        let at = match (self.has_times, words.clone().next()) {
            (_, None) => return Ok(Parsed::Nothing),
            (true, Some(_)) => time(words.next().unwrap_or_default(), 1_000)?,
            (false, Some(_)) => Duration::from_nanos(self.waited.saturating_mul(1_000)),
        };
        self.act(at, &words.collect::<Vec<_>>())
    }
}

impl Iolog {
    fn act(&mut self, at: Duration, words: &[&str]) -> Result<Parsed, String> {
        let (name, action) = match words {
            [_, _, _, _, more, ..] => {
                return Err(format!("{} was found behind a length; nothing more was expected", quote(more)));
            }
            [name, action, ..] => (*name, *action),
            _ => return Err("a file and an action were expected".into()),
        };
        if name == "wait" && !self.has_times {
            self.waited = self.waited.saturating_add(number(action, "wait")?);
            return Ok(Parsed::Nothing);
        }
        let kind = match action {
            "read" => Kind::Read,
            "write" => Kind::Write,
            "trim" => Kind::Discard,
            "sync" | "datasync" => Kind::Flush,
            "add" | "open" | "close" => return Ok(Parsed::Nothing),
            "wait" => {
                let offset = words.get(2).copied().unwrap_or_default();
                self.waited = self.waited.saturating_add(number(offset, "wait")?);
                return Ok(Parsed::Nothing);
            }
            other => {
                return Err(format!(
                    "action {} was found; read, write or the like was expected",
                    quote(other)
                ));
            }
        };
        let extent = match (kind, words) {
            (Kind::Flush, _) => ByteExtent { start: 0, length: 0 },
            (_, [_, _, offset, length, ..]) => {
                ByteExtent { start: number(offset, "offset")?, length: number(length, "length")? }
            }
            _ => return Err(format!("{} was found without its offset and length", quote(action))),
        };
        Ok(Parsed::access(at, self.devices.number(name)?, kind, extent))
    }
}
