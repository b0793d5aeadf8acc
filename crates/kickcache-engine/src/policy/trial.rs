//! What is of yesterday: when a volume suddenly asks for what the cache never knew, the hits of what is cached are
//! forgotten, and main's segments must show that somebody still uses them, or leave before all others.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::units::{SegmentIndex, VolumeId};

/// A segment of which a smaller part than this is used again, in percent, leaves.
const USED_PERCENT: u32 = 1;
/// How long a segment has to show it, in blocks asked for, as a part of the cache's capacity.
const TIME_SHARE: u64 = 64;

/// The policy's memory.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    wanted: Option<VolumeId>,
    /// Whose change it is.
    volume: Option<VolumeId>,
    /// Segments whose hits are still those of yesterday.
    waiting: Vec<SegmentIndex>,
    /// Segments whose hits were forgotten, and how many blocks had been asked for by then.
    suspects: VecDeque<(SegmentIndex, u64)>,
}

impl Trial {
    /// A volume suddenly asks for other blocks.
    pub(crate) fn want(&mut self, volume: VolumeId) {
        self.wanted = Some(volume);
    }

    /// The volume for which a trial is to begin.
    pub(crate) fn take_wanted(&mut self) -> Option<VolumeId> {
        self.wanted.take()
    }

    /// Begins with all segments, those that are next in line last.
    pub(crate) fn begin(&mut self, volume: VolumeId, segments: Vec<SegmentIndex>) {
        self.volume = Some(volume);
        self.waiting = segments;
        self.suspects.clear();
    }

    pub(crate) const fn volume(&self) -> Option<VolumeId> {
        self.volume
    }

    /// The next segment whose hits are to be forgotten.
    pub(crate) fn take_waiting(&mut self) -> Option<SegmentIndex> {
        self.waiting.pop()
    }

    /// The hits of a segment were forgotten when `asked` blocks had been asked for.
    pub(crate) fn suspect(&mut self, segment: SegmentIndex, asked: u64) {
        self.suspects.push_back((segment, asked));
    }

    /// The next segment that has had its time.
    pub(crate) fn take_suspect(&mut self, asked: u64, capacity: u64) -> Option<SegmentIndex> {
        let (segment, since) = *self.suspects.front()?;
        if asked - since < capacity / TIME_SHARE {
            return None;
        }
        self.suspects.pop_front();
        Some(segment)
    }

    /// Whether a segment that has had its time leaves: `hot` of its `live` blocks have hits.
    pub(crate) const fn is_of_yesterday(&self, hot: u32, live: u32) -> bool {
        hot * 100 <= live * USED_PERCENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspect_has_its_time() {
        let mut trial = Trial::default();
        let volume = VolumeId::new(0);
        trial.want(volume);
        assert_eq!(trial.take_wanted(), Some(volume));
        trial.begin(volume, alloc::vec![SegmentIndex::new(3)]);
        let segment = trial.take_waiting().unwrap();
        trial.suspect(segment, 1_000);
        assert_eq!(trial.take_suspect(1_099, 6_400), None);
        assert_eq!(trial.take_suspect(1_100, 6_400), Some(segment));
        assert!(trial.is_of_yesterday(1, 100) && !trial.is_of_yesterday(2, 100));
    }
}
