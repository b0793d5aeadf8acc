//! A range of durable journal blocks.

use crate::format::bytes::{Reader, Writer};

/// Most blocks that a declaration covers: 24 bits.
const COUNT_MAX: u64 = (1 << 24) - 1;

/// Numbers of durable journal blocks, from `first` up to and without `end`. Empty if `first` is not below `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DurableBlocks {
    /// The first number.
    pub first: u64,
    /// The number after the last block.
    pub end: u64,
}

impl DurableBlocks {
    /// Whether the range contains the block of this number.
    pub fn contains(&self, number: u64) -> bool {
        self.first <= number && number < self.end
    }

    /// Whether the range contains no block.
    pub fn is_empty(&self) -> bool {
        self.first >= self.end
    }

    fn count(&self) -> u32 {
        u32::try_from(self.end.saturating_sub(self.first).min(COUNT_MAX)).expect("24 bits")
    }

    /// Appends the number of blocks in 3 bytes and `end` in 8.
    pub(crate) fn put(&self, writer: &mut Writer) {
        writer.put_u24(self.count());
        writer.put_u64(if self.is_empty() { 0 } else { self.end });
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Option<DurableBlocks> {
        let count = reader.take_u24()?;
        let end = reader.take_sequence()?.get();
        Some(DurableBlocks { first: end.checked_sub(u64::from(count))?, end })
    }

    /// Appends 7 bytes: the range, relative to block `number`, or zeroes.
    pub(crate) fn put_before(&self, number: u64, writer: &mut Writer) {
        let told = number.checked_sub(self.end).filter(|between| *between <= COUNT_MAX && !self.is_empty());
        let between = u32::try_from(told.unwrap_or(0)).expect("24 bits");
        writer.put_u24(between);
        writer.put_u32(told.map_or(0, |_| self.count()));
    }

    pub(crate) fn take_before(number: u64, reader: &mut Reader<'_>) -> Option<DurableBlocks> {
        let between = u64::from(reader.take_u24()?);
        let count = u64::from(reader.take_u32()?);
        if count == 0 {
            return Some(DurableBlocks::default());
        }
        let end = number.checked_sub(between)?;
        Some(DurableBlocks { first: end.checked_sub(count)?, end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], take: impl Fn(&mut Reader<'_>) -> Option<DurableBlocks>) -> DurableBlocks {
        take(&mut Reader::bare(bytes.get(12..).expect("a head"))).expect("it is whole")
    }

    #[test]
    fn both_ways_of_writing_it_survive_the_trip() {
        for blocks in [(0, 0), (0, 1), (7, 7), (1 << 40, (1 << 40) + 9)] {
            let blocks = DurableBlocks { first: blocks.0, end: blocks.1 };
            let mut writer = Writer::new(*b"KICKTEST", 64);
            blocks.put(&mut writer);
            let found = read(&writer.finish(), DurableBlocks::take);
            assert!(found == blocks || blocks.is_empty() && found.is_empty(), "{found:?}");
            let mut writer = Writer::new(*b"KICKTEST", 64);
            blocks.put_before(blocks.end + 3, &mut writer);
            let found = read(&writer.finish(), |reader| DurableBlocks::take_before(blocks.end + 3, reader));
            assert!(found == blocks || blocks.is_empty() && found.is_empty(), "{found:?}");
        }
    }

    #[test]
    fn the_last_of_too_many_extents_are_kept() {
        let blocks = DurableBlocks { first: 5, end: (1 << 24) + 100 };
        let mut writer = Writer::new(*b"KICKTEST", 64);
        blocks.put(&mut writer);
        let found = read(&writer.finish(), DurableBlocks::take);
        assert_eq!(found, DurableBlocks { first: 101, end: (1 << 24) + 100 });
    }

    #[test]
    fn an_impossible_count_is_not_whole() {
        let mut writer = Writer::new(*b"KICKTEST", 64);
        writer.put_u24(9);
        writer.put_u64(8);
        assert_eq!(DurableBlocks::take(&mut Reader::bare(writer.finish().get(12..).expect("a head"))), None);
    }
}
