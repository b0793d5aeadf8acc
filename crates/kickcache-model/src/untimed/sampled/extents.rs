//! Which extents of a volume are in the sample.

use kickcache_curve::hash;
use kickcache_engine::units::ByteExtent;

use crate::untimed::Scale;

/// Bytes of an extent on the scaled volume, if the scale is a power of two.
const EXTENT_BYTES: u64 = 1 << 20;
/// Groups of the extents; their spread gives the precision of the sample.
pub(super) const GROUPS: usize = 32;

/// A sample of the extents of a trace's volume, which are adjacent on a smaller volume.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ExtentSample {
    /// Bytes of an extent, of the trace.
    bytes: u64,
    count: u64,
    /// The numbers of the extents in the sample, ascending; `None` if all extents are.
    numbers: Option<Vec<u64>>,
}

/// The part of an access in one extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) number: u64,
    pub(super) extent: ByteExtent,
    pub(super) place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In the sample: the group of the extent, and the bytes of the part on the smaller volume.
    Sample { group: usize, extent: ByteExtent },
    /// The extent is not in the sample.
    Outside,
}

impl ExtentSample {
    pub(super) fn new(volume_bytes: u64, scale: Scale, one_in: u64) -> ExtentSample {
        let bytes = EXTENT_BYTES / scale.0.next_power_of_two();
        let threshold = u64::MAX / one_in;
        let is_in = |number: &u64| hash::hash(*number) <= threshold;
        let all = volume_bytes.div_ceil(bytes);
        let numbers: Option<Vec<u64>> = (one_in > 1).then(|| (0..all).filter(is_in).collect());
        ExtentSample { bytes, count: numbers.as_ref().map_or(all, |numbers| numbers.len() as u64), numbers }
    }

    pub(super) fn volume_bytes(&self) -> u64 {
        self.count.max(1) * self.bytes
    }

    fn rank(&self, number: u64) -> Option<u64> {
        self.numbers
            .as_ref()
            .map_or(Some(number), |numbers| numbers.binary_search(&number).ok().map(|rank| rank as u64))
    }

    pub(super) fn parts(&self, access: ByteExtent) -> impl Iterator<Item = Part> {
        let (first, end) = (access.start / self.bytes, access.end().div_ceil(self.bytes));
        (first..end).map(move |number| {
            let start = access.start.max(number * self.bytes);
            let length = access.end().min((number + 1) * self.bytes) - start;
            let place = self.rank(number).map_or(Place::Outside, |rank| {
                let start = rank * self.bytes + start % self.bytes;
                let group = (hash::hash(number) >> 8) as usize % GROUPS;
                Place::Sample { group, extent: ByteExtent { start, length } }
            });
            Part { number, extent: ByteExtent { start, length }, place }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_an_access_is_in_one_extent() {
        let access = ByteExtent { start: 1_000_000, length: 9_000_000 };
        let parts: Vec<ByteExtent> =
            ExtentSample::new(1 << 30, Scale(4), 1).parts(access).map(|part| part.extent).collect();
        assert_eq!(parts.iter().map(|part| part.length).sum::<u64>(), access.length);
        let whole = ExtentSample::new(1 << 52, Scale(4), 1);
        assert_eq!((whole.volume_bytes(), &whole.numbers), (1 << 52, &None), "no list of 2^34 extents");
        assert_eq!(whole.parts(access).map(|part| part.extent).collect::<Vec<_>>(), parts);
        assert!(parts.windows(2).all(|pair| pair[0].end() == pair[1].start));
        assert!(parts.iter().all(|part| part.start / (256 << 10) == (part.end() - 1) / (256 << 10)));
        let sample = ExtentSample::new(1 << 30, Scale(4), 8);
        let within = |part: Part| match part.place {
            Place::Sample { extent, .. } => Some(extent.start),
            Place::Outside => None,
        };
        let few: Vec<u64> =
            sample.parts(ByteExtent { start: 0, length: 1 << 30 }).filter_map(within).collect();
        assert!((400..=624).contains(&few.len()), "{} of 4096 extents", few.len());
        let side_by_side: Vec<u64> = (0..few.len() as u64).map(|rank| rank * (256 << 10)).collect();
        assert_eq!(
            (few, sample.volume_bytes()),
            (side_by_side.clone(), side_by_side.len() as u64 * (256 << 10))
        );
    }
}
