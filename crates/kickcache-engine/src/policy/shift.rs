//! A shift of the working set: if a volume suddenly requests blocks that are unknown to the cache, the older segments
//! can become candidates. If new blocks soon serve the volume well and older ones do not, unused candidates are
//! reclaimed first.

use alloc::collections::VecDeque;

use crate::units::{SegmentIndex, Sequence, VolumeId};

/// A candidate with at most this many hits for 100 live blocks is stale.
const USED_PERCENT: u32 = 1;
/// Hits needed for an early proof: the cache's capacity in blocks divided by this.
const HITS_SHARE: u64 = 256;
/// Hits per miss needed for an early proof.
const HITS_FOR_A_MISS: u64 = 3;
/// An early proof requires that at most one in this many hits is on a candidate.
const NEW_FOR_AN_OLD: u64 = 16;
/// Requested blocks after which there is no early proof: the cache's capacity divided by this.
const LENGTH_SHARE: u64 = 4;
/// Requested blocks needed for a late proof: the cache's capacity in blocks divided by this.
const LATE_SHARE: u64 = 2;
/// A late proof requires at most this many misses per hit.
const LATE_MISSES_FOR_A_HIT: u64 = 2;
/// A late proof requires that at most one in this many hits is on a candidate.
const LATE_NEW_FOR_AN_OLD: u64 = 64;
/// Requested blocks after which a shift without a proof ends, in capacities of the cache.
const LENGTH: u64 = 2;

/// Requested blocks by the result of the look-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RequestedBlocks {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl RequestedBlocks {
    pub(crate) const fn plus(self, other: RequestedBlocks) -> RequestedBlocks {
        RequestedBlocks { hits: self.hits + other.hits, misses: self.misses + other.misses }
    }

    /// The requests after `before`; zero where the count shrank.
    pub(crate) const fn since(self, before: RequestedBlocks) -> RequestedBlocks {
        RequestedBlocks {
            hits: self.hits.saturating_sub(before.hits),
            misses: self.misses.saturating_sub(before.misses),
        }
    }
}

/// A look that is due: at segments written up to a sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) volume: VolumeId,
    pub(crate) before: Sequence,
}

#[derive(Debug, Default)]
pub(crate) struct Shift {
    wanted: Option<Wanted>,
    /// The volume of the change, while a shift is in progress.
    volume: Option<VolumeId>,
    since: RequestedBlocks,
    /// Hits of the volume, since the shift began, in candidates of this shift or of an earlier one.
    old_hits: u64,
    /// The shift is proven: its unused candidates may be reclaimed.
    is_proven: bool,
    /// Segments that may be stale, in the order of their reclaim.
    candidates: VecDeque<SegmentIndex>,
}

impl Shift {
    /// The working set of a volume suddenly changed; segments with sequence numbers up to `before` are older.
    pub(crate) fn want(&mut self, volume: VolumeId, before: Sequence) {
        self.wanted = Some(Wanted { volume, before });
    }

    /// The look that is due, if any; none while a shift is proven and has not ended.
    pub(crate) fn take_wanted(&mut self) -> Option<Wanted> {
        self.wanted.take_if(|_| !self.is_proven)
    }

    /// Begins a shift at these counts of the volume.
    pub(crate) fn begin(
        &mut self,
        volume: VolumeId,
        asked: RequestedBlocks,
        candidates: VecDeque<SegmentIndex>,
    ) {
        (self.volume, self.since, self.candidates) = (Some(volume), asked, candidates);
        (self.old_hits, self.is_proven) = (0, false);
    }

    pub(crate) const fn volume(&self) -> Option<VolumeId> {
        self.volume
    }

    pub(crate) fn on_old_hit(&mut self, volume: VolumeId) {
        self.old_hits += u64::from(self.volume == Some(volume));
    }

    /// Another policy has found that blocks unused since the shift began are stale.
    pub(crate) fn prove(&mut self) {
        self.is_proven = self.volume.is_some();
    }

    /// The next candidate, after a proof of the shift.
    pub(crate) fn take_candidate(&mut self, asked: RequestedBlocks, capacity: u64) -> Option<SegmentIndex> {
        let asked = asked.since(self.since);
        let RequestedBlocks { hits, misses } = asked;
        self.is_proven |= self.is_early_proof(asked, capacity) || self.is_late_proof(asked, capacity);
        let candidate = if self.is_proven { self.candidates.pop_front() } else { None };
        if candidate.is_none() && (self.is_proven || hits + misses > capacity * LENGTH) {
            (self.volume, self.is_proven) = (None, false);
            self.candidates.clear();
        }
        candidate
    }

    fn is_early_proof(&self, RequestedBlocks { hits, misses }: RequestedBlocks, capacity: u64) -> bool {
        hits + misses <= capacity / LENGTH_SHARE
            && hits >= capacity / HITS_SHARE
            && hits >= misses * tuned!(ShiftHits, HITS_FOR_A_MISS)
            && self.old_hits * tuned!(ShiftNew, NEW_FOR_AN_OLD) <= hits
    }

    fn is_late_proof(&self, RequestedBlocks { hits, misses }: RequestedBlocks, capacity: u64) -> bool {
        hits + misses >= capacity / LATE_SHARE
            && hits * LATE_MISSES_FOR_A_HIT >= misses
            && self.old_hits * LATE_NEW_FOR_AN_OLD <= hits
    }

    /// Whether a candidate with `used` hits and `live` live blocks is stale.
    pub(crate) const fn is_stale(&self, used: u32, live: u32) -> bool {
        used * 100 <= live * USED_PERCENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> Shift {
        let mut shift = Shift::default();
        let volume = VolumeId::new(0);
        shift.want(volume, Sequence::new(9));
        assert_eq!(shift.take_wanted(), Some(Wanted { volume, before: Sequence::new(9) }));
        let asked = RequestedBlocks { hits: 1_000, misses: 1_000 };
        shift.begin(volume, asked, [3, 4].map(SegmentIndex::new).into());
        shift
    }

    #[test]
    fn hits_of_new_blocks_prove_that_old_ones_may_leave() {
        let mut shift = begun();
        assert_eq!(shift.take_candidate(RequestedBlocks { hits: 1_099, misses: 1_020 }, 25_600), None);
        let proof = RequestedBlocks { hits: 1_100, misses: 1_020 };
        assert_eq!(shift.take_candidate(proof, 25_600), Some(SegmentIndex::new(3)));
        assert!(shift.is_stale(1, 100) && !shift.is_stale(2, 100));
        assert_eq!(shift.take_candidate(proof, 25_600), Some(SegmentIndex::new(4)));
        assert_eq!((shift.take_candidate(proof, 25_600), shift.volume()), (None, None), "the shift is over");
    }

    #[test]
    fn misses_are_no_proof() {
        let mut shift = begun();
        assert_eq!(shift.take_candidate(RequestedBlocks { hits: 1_100, misses: 1_200 }, 25_600), None);
        assert_eq!(shift.take_candidate(RequestedBlocks { hits: 1_100, misses: 60_000 }, 25_600), None);
        assert_eq!(shift.volume(), None, "the shift is over");
    }

    #[test]
    fn proofs_of_others_end_with_the_candidates() {
        let mut shift = begun();
        let asked = RequestedBlocks { hits: 1_000, misses: 21_000 };
        assert_eq!(shift.take_candidate(asked, 25_600), None);
        shift.prove();
        assert_eq!(shift.take_candidate(asked, 25_600), Some(SegmentIndex::new(3)));
        assert_eq!(shift.take_candidate(asked, 25_600), Some(SegmentIndex::new(4)));
        assert_eq!((shift.take_candidate(asked, 25_600), shift.volume()), (None, None));
        shift.prove();
        assert_eq!(shift.take_candidate(asked, 25_600), None, "there is no shift");
    }

    #[test]
    fn fewer_hits_prove_it_later_unless_old_blocks_are_used() {
        let (early, late) =
            (RequestedBlocks { hits: 5_000, misses: 9_000 }, RequestedBlocks { hits: 6_000, misses: 9_000 });
        let mut shift = begun();
        assert_eq!(shift.take_candidate(early, 25_600), None);
        assert_eq!(shift.take_candidate(late, 25_600), Some(SegmentIndex::new(3)));
        let mut shift = begun();
        (0..79).for_each(|_| shift.on_old_hit(VolumeId::new(0)));
        assert_eq!(shift.take_candidate(late, 25_600), None);
        assert_eq!(
            begun().take_candidate(RequestedBlocks { hits: 4_000, misses: 14_000 }, 25_600),
            None,
            "too few"
        );
    }

    #[test]
    fn hits_of_old_blocks_are_no_proof() {
        let mut shift = begun();
        (0..10).for_each(|_| shift.on_old_hit(VolumeId::new(0)));
        assert_eq!(shift.take_candidate(RequestedBlocks { hits: 1_100, misses: 1_000 }, 25_600), None);
    }
}
