//! The names of the formats.

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// Written by `kickcache record`.
    Kickcache,
    /// CSV with the header `time_us,op,offset,size`.
    Csv,
    Blkparse,
    Blktrace,
    /// fio's I/O log, version 2 or 3.
    Iolog,
    Msr,
    Spc,
    Alibaba,
    Tencent,
}

impl Format {
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
