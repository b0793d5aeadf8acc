//! A cache device that has grown.
//!
//! A checkpoint describes all segments, so the journal bounds how far a device can grow.
#![expect(clippy::arithmetic_side_effects, reason = "a checked geometry has at most 15 TiB")]

use alloc::format;

use crate::error::Error;
use crate::format::batch::BatchHeader;
use crate::format::geometry::{DEVICE_SIZE_MAX, Geometry, SUPERBLOCK_AREA};
use crate::format::journal::segments_per_chunk;
use crate::format::summary::Summary;
use crate::units::Generation;

/// New segments begin at least this many generations after the highest generation found in the new part of the device:
/// a power cut may have torn a structure with a higher one.
pub const GENERATION_GAP: u32 = 65_536;

/// The layout after a device has grown to `device_size` bytes.
///
/// # Errors
/// [`Error::Growth`] if it has not grown by a segment, or beyond [`size_max`].
pub fn grown(geometry: &Geometry, device_size: u64) -> Result<Geometry, Error> {
    let refuse = |what| Err(Error::Growth { what });
    let (old, maximum) = (geometry.device_size, size_max(geometry));
    if device_size < old {
        return refuse(format!(
            "it uses {old} bytes, and {device_size} are less: a cache device cannot shrink"
        ));
    }
    if device_size > maximum {
        return refuse(format!(
            "its journal, made when it was formatted with {} bytes, lets it grow to {maximum} bytes, and {device_size} are more; \
             grow it to at most {maximum}, or drain it and format it",
            geometry.formatted_size
        ));
    }
    let grown = geometry.with_size(device_size);
    if grown.segment_count == geometry.segment_count {
        let segment = geometry.segment_size;
        return refuse(format!(
            "it uses {old} bytes, and {device_size} have no room for another segment of {segment} bytes"
        ));
    }
    Ok(grown)
}

/// The largest size in bytes that a device can grow to.
pub fn size_max(geometry: &Geometry) -> u64 {
    let blocks = geometry.journal_blocks();
    let chunks = (blocks * 3 / 8).saturating_sub(journal_spare(geometry)) / 2;
    let segments = chunks * u64::from(segments_per_chunk(geometry));
    let size = SUPERBLOCK_AREA + geometry.journal_size + segments * geometry.segment_size;
    size.clamp(geometry.device_size, DEVICE_SIZE_MAX.max(geometry.device_size))
}

/// The generation of a segment in the new part of a device, if it contains structures of this device.
pub fn generation_found(
    geometry: &Geometry,
    uuid: [u8; 16],
    segment: &FoundSegment<'_>,
) -> Option<Generation> {
    let header = BatchHeader::decode(segment.first).filter(|header| header.uuid == uuid);
    let summary = Summary::decode(segment.summary, geometry).filter(|summary| summary.uuid == uuid);
    header.map(|header| header.generation).max(summary.map(|summary| summary.generation))
}

/// The parts of a segment that show its generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundSegment<'a> {
    /// The first block.
    pub first: &'a [u8],
    /// The blocks of the summary.
    pub summary: &'a [u8],
}

/// Blocks of the journal that are kept free besides two checkpoints.
pub(crate) const fn journal_spare(geometry: &Geometry) -> u64 {
    16 + geometry.journal_blocks() / 256
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::journal::chunk_count;

    #[test]
    fn a_grown_device_keeps_its_journal_and_segments() {
        let formatted = Geometry::for_device(1 << 30).unwrap();
        let three = grown(&formatted, 3 << 30).unwrap();
        assert_eq!((three.device_size, three.formatted_size), (3 << 30, 1 << 30));
        assert_eq!((three.segment_size, three.journal_size), (1 << 20, formatted.journal_size));
        assert_eq!(three.segment_count, 3_060);
        assert!(three.check().is_ok());
        let four = grown(&three, 4 << 30).unwrap();
        assert_eq!(four, grown(&formatted, 4 << 30).unwrap(), "the way there does not count");
        assert!(Geometry { segment_count: three.segment_count + 1, ..three }.check().is_err());
        assert!(Geometry { formatted_size: 8 << 30, ..three }.check().is_err(), "it has not shrunk");
    }

    #[test]
    fn a_device_grows_by_whole_segments_and_never_shrinks() {
        let geometry = Geometry::for_device(1 << 30).unwrap();
        assert!(grown(&geometry, (1 << 30) - 1).is_err());
        assert!(grown(&geometry, (1 << 30) + 4096).is_err());
        assert!(grown(&geometry, (1 << 30) + geometry.segment_size).is_ok());
    }

    #[test]
    fn the_journal_bounds_how_far_a_device_grows() {
        for (size, times) in
            [(8u64 << 20, 3u64), (100_000_000, 8), (1 << 30, 20), (8 << 30, 20), (64 << 30, 2), (4 << 40, 2)]
        {
            let geometry = Geometry::for_device(size).unwrap();
            let maximum = size_max(&geometry);
            assert!(maximum >= size * times, "{size}: {maximum}");
            let largest = grown(&geometry, maximum).unwrap();
            assert_eq!(size_max(&largest), maximum);
            let needed = 2 * u64::from(chunk_count(&largest)) + journal_spare(&geometry);
            assert!(needed <= geometry.journal_blocks() * 3 / 8, "{size}");
            assert!(grown(&geometry, maximum + 1).is_err());
        }
        let largest = Geometry::for_device(DEVICE_SIZE_MAX).unwrap();
        assert_eq!(size_max(&largest), DEVICE_SIZE_MAX);
    }
}
