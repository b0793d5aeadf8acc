//! The capabilities of a device.

use crate::serve::frontend::ublk::abi::{
    BasicParameters, DiscardParameters, FUA_ATTRIBUTE, PARAMETERS_LENGTH, Parameters, READ_ONLY, TYPE_BASIC,
    TYPE_DISCARD, VOLATILE_CACHE,
};

const SECTOR_SHIFT: u32 = 9;
/// The size of the engine's block, as a power of two.
const BLOCK_SHIFT: u8 = 12;
/// The most sectors of 512 bytes of a discard or of a write of zeroes: 1 GiB.
const DISCARD_SECTORS_MAX: u32 = 1 << 21;

/// Bytes of the smallest request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogicalBlock {
    Bytes512,
    Bytes4096,
}

impl LogicalBlock {
    pub(crate) fn of_shift(shift: u8) -> LogicalBlock {
        if shift < BLOCK_SHIFT { LogicalBlock::Bytes512 } else { LogicalBlock::Bytes4096 }
    }

    pub(crate) fn bytes(self) -> u32 {
        1 << self.shift()
    }

    fn shift(self) -> u8 {
        match self {
            LogicalBlock::Bytes512 => 9,
            LogicalBlock::Bytes4096 => BLOCK_SHIFT,
        }
    }

    /// Sectors of 512 bytes in the whole blocks of `size` bytes.
    pub(crate) fn sectors_of(self, size: u64) -> u64 {
        size >> self.shift() << self.shift() >> SECTOR_SHIFT
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Writes {
    Allowed,
    Refused,
}

/// A partial logical block at the end of the volume is not served.
pub(crate) fn parameters(
    size: u64,
    request_bytes_max: u32,
    block: LogicalBlock,
    writes: Writes,
) -> Parameters {
    let read_only = if writes == Writes::Refused { READ_ONLY } else { 0 };
    let basic = BasicParameters {
        attributes: VOLATILE_CACHE | FUA_ATTRIBUTE | read_only,
        logical_block_shift: block.shift(),
        physical_block_shift: BLOCK_SHIFT,
        io_optimal_shift: BLOCK_SHIFT,
        io_minimal_shift: BLOCK_SHIFT,
        sectors_max: request_bytes_max >> SECTOR_SHIFT,
        device_sectors: block.sectors_of(size),
        ..BasicParameters::default()
    };
    let discard = match writes {
        Writes::Allowed => DiscardParameters {
            granularity: 1 << BLOCK_SHIFT,
            discard_sectors_max: DISCARD_SECTORS_MAX,
            write_zeroes_sectors_max: DISCARD_SECTORS_MAX,
            segments_max: 1,
            ..DiscardParameters::default()
        },
        Writes::Refused => DiscardParameters::default(),
    };
    let discards = if writes == Writes::Allowed { TYPE_DISCARD } else { 0 };
    Parameters { length: PARAMETERS_LENGTH, types: TYPE_BASIC | discards, basic, discard, padding: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_matches_the_struct() {
        assert_eq!(size_of::<Parameters>(), 64);
        assert_eq!(parameters(4096, 4096, LogicalBlock::Bytes512, Writes::Allowed).length, 64);
    }

    #[test]
    fn a_partial_block_at_the_end_is_not_served() {
        let sectors = |block| parameters(4096 + 1025, 4096, block, Writes::Allowed).basic.device_sectors;
        assert_eq!(sectors(LogicalBlock::Bytes512), 10);
        assert_eq!(sectors(LogicalBlock::Bytes4096), 8);
    }

    #[test]
    fn a_read_only_device_takes_no_discards() {
        let found = parameters(4096, 4096, LogicalBlock::Bytes512, Writes::Refused);
        assert_eq!(found.basic.attributes & READ_ONLY, READ_ONLY);
        assert_eq!((found.types, found.discard), (TYPE_BASIC, DiscardParameters::default()));
    }
}
