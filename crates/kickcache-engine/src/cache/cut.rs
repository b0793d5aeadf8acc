//! The membership of a cut: the dirty copies of a group of volumes that had a location at the instant of the cut.
//!
//! A cut begins without a look at the blocks: each segment is examined later, in slices. A location belongs to the cut if
//! it was in its segment at the instant, and is dirty and in no group when its segment is examined, or was so when it
//! died before that. Each member pins its segment.

use alloc::vec::Vec;

use crate::cache::Cache;
use crate::cache::cut_search::{CutMember, CutSearch, SegmentEnd};
use crate::cache::segments::SegmentState;
use crate::cache::slots::SlotState;
use crate::units::{Location, VolumeSet};

/// The result of a slice of a search for the members of a cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum CutSlice {
    /// The members of a segment, ascending by key.
    Segment(Vec<CutMember>),
    /// All segments are examined. These members died before their segment was examined, ascending by key.
    End(Vec<CutMember>),
    /// The slice is used up.
    Nothing,
}

impl Cache {
    /// Begins a cut of these volumes. `open` has the segments that are open now, with the number of their blocks.
    ///
    /// # Panics
    /// If another cut is being searched.
    pub(crate) fn begin_cut(&mut self, volumes: VolumeSet, open: Vec<SegmentEnd>) {
        assert!(self.cut.is_none(), "one cut at a time");
        self.cut = Some(CutSearch::new(self.segments.count(), volumes, open).into());
    }

    /// Examines segments until one has members, all are examined, or the steps are used up. The segments of members are
    /// pinned, once for each member.
    pub(crate) fn search_cut(&mut self, steps: &mut u32) -> CutSlice {
        while *steps > 0 {
            let cut = self.cut.as_mut().expect("a cut is being searched");
            let Some(segment) = cut.next_segment() else {
                let mut died = self.cut.take().expect("a cut is being searched").died;
                died.sort_unstable();
                return CutSlice::End(died);
            };
            cut.leave_out(segment);
            if mutant!(CutAtTwoInstants) && self.segments.get(segment).state == SegmentState::Open {
                cut.open.clear();
            }
            let (volumes, end) = (cut.volumes, cut.end_of(segment));
            *steps = steps.saturating_sub(1);
            if self.segments.get(segment).not_clean == 0 {
                continue;
            }
            *steps = steps.saturating_sub(self.geometry.batch_blocks());
            let first = self.geometry.first_location(segment).get();
            let is_member = |location: &Location| {
                self.is_for_cut(*location)
                    && location.get() - first < end
                    && volumes.contains(self.slots.key(*location).volume())
            };
            let found = self.live_in(segment).filter(is_member);
            let mut members: Vec<CutMember> =
                found.map(|location| CutMember { key: self.slots.key(location), location }).collect();
            if members.is_empty() {
                continue;
            }
            members.sort_unstable();
            self.segments.get_mut(segment).pins += u32::try_from(members.len()).expect("a segment's blocks");
            return CutSlice::Segment(members);
        }
        CutSlice::Nothing
    }

    /// Ends the search for the members of a cut, if there is one; returns the members that died meanwhile, with their
    /// pins.
    pub(crate) fn end_cut(&mut self) -> Vec<CutMember> {
        self.cut.take().map_or_else(Vec::new, |cut| cut.died)
    }

    /// Whether a block is dirty, and no group has it.
    fn is_for_cut(&self, location: Location) -> bool {
        self.slots.state(location) == SlotState::Dirty
            && !self.slots.is_damaged(location)
            && !self.slots.is_in_writeback(location)
    }

    /// A live block dies.
    #[cold]
    #[inline(never)]
    pub(super) fn note_death_in_cut(&mut self, location: Location) {
        let segment = self.geometry.segment_of(location);
        let key = self.slots.key(location);
        let is_wanted = self.is_for_cut(location);
        let Some(cut) = &mut self.cut else { return };
        let offset = location.get() - self.geometry.first_location(segment).get();
        let is_member = is_wanted
            && cut.holds(segment)
            && offset < cut.end_of(segment)
            && cut.volumes.contains(key.volume());
        if is_member && !mutant!(CutLacksDead) {
            cut.died.push(CutMember { key, location });
            self.segments.get_mut(segment).pins += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::geometry::Geometry;
    use crate::units::{BlockIndex, BlockKey, Checksum, SegmentIndex, VolumeId};

    fn key(volume: u8, block: u64) -> BlockKey {
        BlockKey::new(VolumeId::new(volume), BlockIndex::new(block))
    }

    fn group() -> VolumeSet {
        [VolumeId::new(0), VolumeId::new(1)].into_iter().collect()
    }

    fn end(segment: u32, end: u32) -> SegmentEnd {
        SegmentEnd { segment: SegmentIndex::new(segment), end }
    }

    fn put(cache: &mut Cache, key: BlockKey, location: u32) {
        cache.insert(key, Location::new(location), Checksum::new(0), SlotState::Dirty);
    }

    /// Searches to the end; returns all members, ascending.
    fn search(cache: &mut Cache) -> Vec<CutMember> {
        let mut all = Vec::new();
        loop {
            match cache.search_cut(&mut 10_000) {
                CutSlice::Segment(members) => all.extend(members),
                CutSlice::End(died) => {
                    all.extend(died);
                    all.sort_unstable();
                    return all;
                }
                CutSlice::Nothing => {}
            }
        }
    }

    fn member(key: BlockKey, location: u32) -> CutMember {
        CutMember { key, location: Location::new(location) }
    }

    #[test]
    fn a_cut_has_the_dirty_blocks_of_its_instant() {
        let geometry = Geometry::for_device(16 << 20).unwrap();
        let mut cache = Cache::new(geometry);
        let second = geometry.first_location(SegmentIndex::new(1)).get();
        put(&mut cache, key(0, 5), 1);
        put(&mut cache, key(1, 7), 2);
        put(&mut cache, key(2, 7), 3);
        put(&mut cache, key(0, 1), second);
        put(&mut cache, key(0, 2), second + 1);
        put(&mut cache, key(0, 3), second + 2);
        cache.set_state(Location::new(second + 2), SlotState::Clean);
        cache.begin_cut(group(), [end(0, 3), end(2, 0)].into());
        // After the instant: a new block, a superseded one, a dropped one, one in a segment that is opened.
        put(&mut cache, key(0, 9), 3 + 1);
        put(&mut cache, key(0, 5), 5);
        cache.remove(key(0, 1));
        let third = geometry.first_location(SegmentIndex::new(2)).get();
        put(&mut cache, key(0, 10), third);
        let found = search(&mut cache);
        let wanted = [
            member(key(0, 1), second),
            member(key(0, 2), second + 1),
            member(key(0, 5), 1),
            member(key(1, 7), 2),
        ];
        assert_eq!(found, wanted);
        let pins = |segment| cache.segments().get(SegmentIndex::new(segment)).pins;
        assert_eq!((pins(0), pins(1), pins(2)), (2, 2, 0), "one for each member");
    }

    #[test]
    fn a_copy_that_dies_later_is_found_once() {
        let mut cache = Cache::new(Geometry::for_device(16 << 20).unwrap());
        put(&mut cache, key(0, 5), 1);
        cache.begin_cut(group(), Vec::new());
        assert_eq!(cache.search_cut(&mut 10_000), CutSlice::Segment([member(key(0, 5), 1)].into()));
        cache.remove(key(0, 5));
        assert_eq!(search(&mut cache), []);
    }

    #[test]
    fn an_abandoned_search_returns_its_pins() {
        let mut cache = Cache::new(Geometry::for_device(16 << 20).unwrap());
        put(&mut cache, key(0, 5), 1);
        cache.begin_cut(group(), Vec::new());
        cache.remove(key(0, 5));
        assert_eq!(cache.end_cut(), [member(key(0, 5), 1)]);
        assert_eq!(cache.end_cut(), []);
        cache.begin_cut(group(), Vec::new());
        assert_eq!(search(&mut cache), [], "a dead copy belongs to no later cut");
    }

    #[test]
    fn a_slice_ends_when_its_steps_are_used_up() {
        let mut cache = Cache::new(Geometry::for_device(1 << 30).unwrap());
        cache.begin_cut(group(), Vec::new());
        assert_eq!(cache.search_cut(&mut 3), CutSlice::Nothing);
        assert_eq!(search(&mut cache), []);
    }
}
