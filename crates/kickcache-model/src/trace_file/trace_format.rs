//! The names of the formats.

/// A format of traces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// Written by `kickcache record`.
    Kickcache,
    /// CSV with the header `time_us,op,offset,size`.
    Csv,
    /// The text that `blkparse` prints.
    Blkparse,
    /// The binary files that `blktrace` writes.
    Blktrace,
    /// fio's I/O log, version 2 or 3.
    Iolog,
    /// CSV of MSR Cambridge: time in 100 ns, host, disk, Read or Write, offset, size, response time.
    Msr,
    /// SPC: unit, block of 512 bytes, size, r or w, seconds.
    Spc,
    /// Alibaba 2020: device, R or W, offset, size, microseconds.
    Alibaba,
    /// Tencent CBS: seconds, sector, sectors, 0 or 1, volume.
    Tencent,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 9] = [
        Format::Kickcache,
        Format::Csv,
        Format::Blkparse,
        Format::Blktrace,
        Format::Iolog,
        Format::Msr,
        Format::Spc,
        Format::Alibaba,
        Format::Tencent,
    ];

    /// The name that people type.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Kickcache => "kickcache",
            Format::Csv => "csv",
            Format::Blkparse => "blkparse",
            Format::Blktrace => "blktrace",
            Format::Iolog => "iolog",
            Format::Msr => "msr",
            Format::Spc => "spc",
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
        }
    }
}
