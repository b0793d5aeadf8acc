//! Checks the consistency of the cache metadata.

use crate::cache::segments::SegmentState;
use crate::cache::slots::SlotState;
use crate::cache::{Cache, VolumeBlocks};
use crate::config::VOLUME_COUNT_MAX;
use crate::units::{Location, VolumeSet};

impl Cache {
    /// Compares index, slots, segments and counts.
    ///
    /// # Panics
    /// B-1 or S-1, if they do not agree.
    pub(crate) fn check(&self) {
        let mut volumes = [VolumeBlocks::default(); VOLUME_COUNT_MAX];
        let (mut entries, mut headers) = (0, 0);
        let mut holding = [0; VOLUME_COUNT_MAX];
        for (segment, found) in self.segments.iter() {
            let (mut live, mut not_clean) = (0, 0);
            for location in self.live_in(segment) {
                let state = self.check_live(location);
                assert!(
                    found.volumes.contains(self.slots.key(location).volume()),
                    "S-1: volumes of {segment:?}"
                );
                entries += 1;
                live += 1;
                not_clean += u32::from(state.is_not_clean());
                let counts = &mut volumes[usize::from(self.slots.key(location).volume().get())];
                counts.cached += 1;
                counts.damaged += u64::from(self.slots.is_damaged(location));
                counts.in_writeback += u64::from(self.slots.is_in_writeback(location));
                if let Some(count) = counts.count_mut(state) {
                    *count += 1;
                }
            }
            assert_eq!((live, not_clean), (found.live, found.not_clean), "S-1: segment {segment:?}");
            found.volumes.iter().for_each(|volume| holding[usize::from(volume.get())] += 1);
            headers += if not_clean > 0 { u64::from(found.headers()) } else { 0 };
        }
        assert_eq!(headers, self.segments.not_clean_headers(), "S-1: headers");
        let counted = VolumeSet::ALL.iter().map(|volume| self.segments.holding(volume));
        assert!(counted.eq(holding), "S-1: segments that hold blocks of a volume");
        for state in SegmentState::ALL {
            let found = self.segments.iter().filter(|(_, segment)| segment.state == state).count();
            assert_eq!(found as u64, self.segments.count_in(state), "S-1: segments that are {state:?}");
        }
        assert_eq!(entries, self.index.len(), "B-1: live slots and index entries");
        assert_eq!(volumes, self.volumes, "B-1: counts by volume");
    }

    fn check_live(&self, location: Location) -> SlotState {
        let key = self.slots.key(location);
        assert_eq!(self.find(key), Some(location), "B-1: {key:?} at {location:?}");
        self.slots.state(location)
    }
}
