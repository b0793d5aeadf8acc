//! Records as lines, a format each.

use kickcache_engine::request::Durability;
use kickcache_engine::time::Duration;
use kickcache_engine::units::ByteExtent;

use crate::trace_file::conversion::target::Target;
use crate::trace_file::record::Record;
use crate::workload::Kind;

/// The beginning of 1970 in units of 100 ns since 1601.
const UNIX_TICKS: u64 = 116_444_736_000_000_000;
const NANOS_A_SECOND: u64 = 1_000_000_000;

/// The line of a record; empty for `kickcache` and the I/O logs of fio.
pub(crate) fn line(target: Target, number: u64, at: Duration, record: &Record) -> String {
    let ByteExtent { start, length } = record.extent;
    let (sector, sectors) = (start / 512, length / 512);
    let (device, nanos) = (record.device, at.as_nanos());
    let (seconds, rest) = (nanos / NANOS_A_SECOND, nanos % NANOS_A_SECOND);
    match target {
        Target::Csv => csv(record),
        Target::Blkparse => {
            let major_minor = format!("8,{}", 16 * u64::from(device));
            let what = blkparse(record, sector, sectors);
            format!("{major_minor:>7}  0 {number:>8} {seconds:>5}.{rest:09}     0  Q {what} [kickcache]")
        }
        Target::Msr => {
            let word = if record.kind == Kind::Read { "Read" } else { "Write" };
            format!("{},kickcache,{device},{word},{start},{length},0", UNIX_TICKS + nanos / 100)
        }
        Target::Spc => format!("{device},{sector},{length},{},{seconds}.{rest:09}", letter(record.kind)),
        Target::Alibaba => format!("{device},{},{start},{length},{}", letter(record.kind), nanos / 1_000),
        Target::Tencent => {
            format!("{seconds},{sector},{sectors},{},{device}", u8::from(record.kind != Kind::Read))
        }
        Target::Kickcache | Target::Iolog | Target::IologV2 => String::new(),
    }
}

fn csv(record: &Record) -> String {
    let time = record.at.map_or_else(String::new, |at| {
        let (micros, rest) = (at.as_nanos() / 1_000, at.as_nanos() % 1_000);
        if rest == 0 { micros.to_string() } else { format!("{micros}.{rest:03}") }
    });
    format!("{time},{},{},{}", letter(record.kind), record.extent.start, record.extent.length)
}

fn blkparse(record: &Record, sector: u64, sectors: u64) -> String {
    let letters = match (record.kind, record.durability) {
        (Kind::Flush, _) => return "FWS".into(),
        (Kind::Write | Kind::WriteZeroes, Durability::Durable) => "WFS",
        (kind, _) => letter(kind),
    };
    format!("{letters:>3} {sector} + {sectors}")
}

const fn letter(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "R",
        Kind::Write | Kind::WriteZeroes => "W",
        Kind::Flush => "F",
        Kind::Discard => "D",
    }
}
