//! The formats that can be written.

use crate::trace_file::conversion::lack::Lack;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The format of `kickcache record`.
    Kickcache,
    /// `time_us,op,offset,size`.
    Csv,
    Blkparse,
    Iolog,
    /// fio's I/O log, version 2, without times: its manual has waits since the wait before, in microseconds, and fio 3.33 takes
    /// them for milliseconds since its start.
    IologV2,
    Msr,
    Spc,
    Alibaba,
    Tencent,
}

/// The operations and flags that `msr` and `alibaba` cannot express.
const READS_AND_WRITES: &[Lack] = &[Lack::Flush, Lack::Discard, Lack::Zeroes, Lack::Fua];

impl Target {
    pub const ALL: [Target; 9] = [
        Target::Kickcache,
        Target::Csv,
        Target::Blkparse,
        Target::Iolog,
        Target::IologV2,
        Target::Msr,
        Target::Spc,
        Target::Alibaba,
        Target::Tencent,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Target::Kickcache => "kickcache",
            Target::Csv => "csv",
            Target::Blkparse => "blkparse",
            Target::Iolog => "iolog",
            Target::IologV2 => "iolog-v2",
            Target::Msr => "msr",
            Target::Spc => "spc",
            Target::Alibaba => "alibaba",
            Target::Tencent => "tencent",
        }
    }

    pub const fn lacks(self) -> &'static [Lack] {
        match self {
            Target::Kickcache => &[],
            Target::Csv | Target::Iolog => &[Lack::Zeroes, Lack::Fua],
            Target::IologV2 => &[Lack::Zeroes, Lack::Fua, Lack::Time],
            Target::Blkparse => &[Lack::Zeroes, Lack::Sector],
            Target::Msr | Target::Alibaba => READS_AND_WRITES,
            Target::Spc => &[Lack::Flush, Lack::Discard, Lack::Zeroes, Lack::Fua, Lack::Sector],
            Target::Tencent => {
                &[Lack::Flush, Lack::Discard, Lack::Zeroes, Lack::Fua, Lack::Sector, Lack::Second]
            }
        }
    }

    pub const fn needs_times(self) -> bool {
        !matches!(self, Target::Kickcache | Target::Csv | Target::IologV2)
    }

    pub const fn has_devices(self) -> bool {
        !matches!(self, Target::Csv)
    }
}
