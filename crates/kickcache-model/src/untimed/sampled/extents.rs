//! Which extents of a volume are in the sample.

use kickcache_curve::hash;
use kickcache_engine::units::ByteExtent;

use crate::untimed::Scale;

/// Bytes of an extent on the scaled volume: the widest fill window, so that a fill brings in nothing but the sample.
const EXTENT_BYTES: u64 = 1 << 20;
/// Groups that the extents fall into, which say how good the sample is.
pub(super) const GROUPS: usize = 32;

/// A sample of the extents of a trace's volume.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct ExtentSample {
    /// Bytes of an extent, of the trace.
    bytes: u64,
    /// Extents whose hash is at most this are in it.
    threshold: u64,
}

/// What an access does in one extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    /// The number of the extent.
    pub(super) number: u64,
    pub(super) extent: ByteExtent,
    pub(super) place: Place,
}

/// Where an extent is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In this group of the sample.
    Sample(usize),
    /// Not in the sample.
    Outside,
}

impl ExtentSample {
    /// The sample of about one part in `one_in` of the extents.
    pub(super) fn new(scale: Scale, one_in: u64) -> ExtentSample {
        ExtentSample { bytes: EXTENT_BYTES / scale.0.next_power_of_two(), threshold: u64::MAX / one_in }
    }

    /// The parts of an access, an extent each.
    pub(super) fn parts(self, access: ByteExtent) -> impl Iterator<Item = Part> {
        let (first, end) = (access.start / self.bytes, access.end().div_ceil(self.bytes));
        (first..end).map(move |number| {
            let hash = hash::hash(number);
            let start = access.start.max(number * self.bytes);
            let length = access.end().min((number + 1) * self.bytes) - start;
            let group = (hash >> 8) as usize % GROUPS;
            let place = if hash <= self.threshold { Place::Sample(group) } else { Place::Outside };
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
            ExtentSample::new(Scale(4), 1).parts(access).map(|part| part.extent).collect();
        assert_eq!(parts.iter().map(|part| part.length).sum::<u64>(), access.length);
        assert!(parts.windows(2).all(|pair| pair[0].end() == pair[1].start));
        assert!(parts.iter().all(|part| part.start / (256 << 10) == (part.end() - 1) / (256 << 10)));
        let few = ExtentSample::new(Scale(4), 8).parts(ByteExtent { start: 0, length: 1 << 30 });
        let few = few.filter(|part| part.place != Place::Outside).count();
        assert!((400..=624).contains(&few), "{few} of 4096 extents");
    }
}
