//! The layout of the cache device.
#![expect(clippy::arithmetic_side_effects, reason = "sizes are checked against 15 TiB first")]

use alloc::format;

use crate::error::Error;
use crate::units::{BLOCK_SIZE, ByteExtent, Location, SegmentIndex};

/// Bytes at the start of the device for the superblock copies and the service marks.
pub const SUPERBLOCK_AREA: u64 = 1 << 20;
/// Smallest cache device, in bytes.
pub const DEVICE_SIZE_MIN: u64 = 8 << 20;
/// Largest cache device, in bytes.
pub const DEVICE_SIZE_MAX: u64 = 15 << 40;
/// Largest segment, in bytes.
pub const SEGMENT_SIZE_MAX: u64 = 4 << 20;
/// Smallest segment, in bytes.
pub const SEGMENT_SIZE_MIN: u64 = 64 << 10;
/// The smallest segment of devices from [`THOUSANDTH_FROM`] on.
const SEGMENT_SIZE_LEAST: u64 = 512 << 10;
/// The device size from which [`a_thousandth`] applies.
const THOUSANDTH_FROM: u64 = 512 << 20;
/// Smallest journal, in bytes.
pub const JOURNAL_SIZE_MIN: u64 = 256 << 10;
/// Largest journal of a device up to 64 GiB, in bytes.
pub const JOURNAL_SIZE_MAX: u64 = 64 << 20;

/// The layout of a cache device: superblock area, journal, segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// The size of the device in bytes.
    pub device_size: u64,
    /// Bytes that the device had when it was formatted.
    pub formatted_size: u64,
    /// Bytes of a segment.
    pub segment_size: u64,
    /// Number of segments.
    pub segment_count: u32,
    /// Bytes of the journal.
    pub journal_size: u64,
}

impl Geometry {
    /// The layout for a device of `device_size` bytes.
    ///
    /// # Errors
    /// [`Error::DeviceSize`] below 8 MiB or above 15 TiB.
    pub fn for_device(device_size: u64) -> Result<Geometry, Error> {
        if !(DEVICE_SIZE_MIN..=DEVICE_SIZE_MAX).contains(&device_size) {
            return Err(Error::DeviceSize {
                found: device_size,
                minimum: DEVICE_SIZE_MIN,
                maximum: DEVICE_SIZE_MAX,
            });
        }
        Ok(Geometry::with_segments(device_size, segment_size_of(device_size)))
    }

    fn with_segments(device_size: u64, segment_size: u64) -> Geometry {
        let journal = (device_size / 100).clamp(JOURNAL_SIZE_MIN, JOURNAL_SIZE_MAX.max(device_size / 1024));
        let journal_size = journal / BLOCK_SIZE * BLOCK_SIZE;
        let formatted_size = device_size;
        let layout = Geometry { device_size, formatted_size, segment_size, segment_count: 0, journal_size };
        layout.with_size(device_size)
    }

    fn count_segments(&self) -> u32 {
        let left = self.device_size - SUPERBLOCK_AREA - self.journal_size;
        u32::try_from(left / self.segment_size).expect("at most 15 TiB in segments of 64 KiB")
    }

    /// The layout for another size of the device; journal and segments keep their length.
    pub(crate) fn with_size(&self, device_size: u64) -> Geometry {
        let layout = Geometry { device_size, ..*self };
        Geometry { segment_count: layout.count_segments(), ..layout }
    }

    /// Whether the device has grown since it was formatted.
    pub const fn is_grown(&self) -> bool {
        self.formatted_size != self.device_size
    }

    /// Checks a layout that was read from a superblock.
    ///
    /// # Errors
    /// [`Error::DeviceSize`] if the formatted size is impossible, else [`Error::Superblock`] if the parts do not fit
    /// together.
    pub fn check(&self) -> Result<(), Error> {
        let mut formatted = Geometry::for_device(self.formatted_size)?;
        if segment_sizes_before(self.formatted_size).contains(&self.segment_size) {
            formatted = Geometry::with_segments(self.formatted_size, self.segment_size);
        }
        let is_size = (self.formatted_size..=DEVICE_SIZE_MAX).contains(&self.device_size);
        if is_size && *self == formatted.with_size(self.device_size) {
            return Ok(());
        }
        let of = |layout: &Geometry| {
            let Geometry { segment_count, segment_size, journal_size, .. } = layout;
            format!("{segment_count} segments of {segment_size} bytes and a journal of {journal_size}")
        };
        let expected = of(&formatted.with_size(self.device_size.clamp(self.formatted_size, DEVICE_SIZE_MAX)));
        let what = format!(
            "it records {} on {} bytes, {} when it was formatted; this kickcache expects {expected}: use the version that wrote it last",
            of(self),
            self.device_size,
            self.formatted_size
        );
        Err(Error::Superblock { what })
    }

    /// Blocks in a segment, its summary included.
    pub const fn blocks_per_segment(&self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "a segment has at most 1024 blocks")]
        {
            (self.segment_size / BLOCK_SIZE) as u32
        }
    }

    /// Blocks at the end of a segment that its summary takes.
    pub const fn summary_blocks(&self) -> u32 {
        // 64 bytes of header and 16 for each block of the segment.
        (64 + 16 * self.blocks_per_segment()).div_ceil(4096)
    }

    /// Blocks of a segment that batches can use.
    pub const fn batch_blocks(&self) -> u32 {
        self.blocks_per_segment() - self.summary_blocks()
    }

    /// Blocks that batches can use in all segments, headers included.
    pub const fn capacity_blocks(&self) -> u64 {
        self.batch_blocks() as u64 * self.segment_count as u64
    }

    /// Locations in all segments.
    pub const fn location_count(&self) -> u32 {
        self.segment_count * self.blocks_per_segment()
    }

    /// The extent of journal and segments.
    pub const fn log(&self) -> ByteExtent {
        let segments = self.segment_count as u64 * self.segment_size;
        ByteExtent { start: SUPERBLOCK_AREA, length: self.journal_size + segments }
    }

    /// The journal's extent on the device.
    pub const fn journal(&self) -> ByteExtent {
        ByteExtent { start: SUPERBLOCK_AREA, length: self.journal_size }
    }

    /// Blocks in the journal.
    pub const fn journal_blocks(&self) -> u64 {
        self.journal_size / BLOCK_SIZE
    }

    /// Byte offset of a location on the device.
    pub const fn byte_offset(&self, location: Location) -> u64 {
        SUPERBLOCK_AREA + self.journal_size + location.get() as u64 * BLOCK_SIZE
    }

    /// The first location of a segment.
    pub const fn first_location(&self, segment: SegmentIndex) -> Location {
        Location::new(segment.get() * self.blocks_per_segment())
    }

    /// The segment of a location.
    pub const fn segment_of(&self, location: Location) -> SegmentIndex {
        SegmentIndex::new(location.get() / self.blocks_per_segment())
    }
}

fn segment_size_of(device_size: u64) -> u64 {
    if device_size < THOUSANDTH_FROM { a_256th(device_size) } else { a_thousandth(device_size) }
}

/// The segment sizes of devices that were formatted before 2026-11-27, and on that day.
fn segment_sizes_before(device_size: u64) -> [u64; 2] {
    [a_256th(device_size), a_thousandth(device_size)]
}

fn a_256th(device_size: u64) -> u64 {
    let wanted = (device_size / 256).clamp(SEGMENT_SIZE_MIN, SEGMENT_SIZE_MAX);
    1 << wanted.ilog2()
}

fn a_thousandth(device_size: u64) -> u64 {
    let wanted = (device_size / 1024).max(SEGMENT_SIZE_LEAST).min(a_256th(device_size));
    1 << wanted.ilog2()
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn every_size_leaves_room_for_many_segments() {
        for size in [DEVICE_SIZE_MIN, 32 << 20, 100_000_000, 4 << 30, 64 << 30, DEVICE_SIZE_MAX] {
            let geometry = Geometry::for_device(size).unwrap();
            assert!(geometry.segment_count >= 100, "{geometry:?}");
            let end = geometry.byte_offset(Location::new(geometry.location_count()));
            assert!(end <= size, "{geometry:?}");
            assert!(geometry.check().is_ok());
        }
    }

    #[test]
    fn small_devices_have_small_segments() {
        let sizes = [8, 32, 64, 128, 256, 512, 1_000, 1_024, 4_096, 1 << 20];
        let segments = sizes.map(|size| Geometry::for_device(size << 20).unwrap().segment_size >> 10);
        assert_eq!(segments, [64, 128, 256, 512, 1_024, 512, 512, 1_024, 4_096, 4_096]);
    }

    #[test]
    fn a_layout_with_fewer_segments_is_used_as_formatted() {
        let before = Geometry::with_segments(1 << 30, 4 << 20);
        assert!(before.check().is_ok() && before.with_size(2 << 30).check().is_ok(), "{before:?}");
        for segment_size in [64 << 10, 2 << 20, 8 << 20] {
            assert!(Geometry::with_segments(1 << 30, segment_size).check().is_err(), "{segment_size}");
        }
        let of_a_day = Geometry::with_segments(300 << 20, 512 << 10);
        assert!(of_a_day.check().is_ok() && of_a_day != Geometry::for_device(300 << 20).unwrap());
        let wrong = Geometry { segment_count: before.segment_count + 1, ..before };
        let said = wrong.check().unwrap_err().to_string();
        let [found, expected] = [wrong, before].map(|layout| format!("{} segments of", layout.segment_count));
        assert!(
            said.contains(&format!("records {found}")) && said.contains(&format!("expects {expected}")),
            "{said}"
        );
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        assert!(Geometry::for_device(DEVICE_SIZE_MIN - 1).is_err());
        assert!(Geometry::for_device(u64::MAX).is_err());
    }
}
