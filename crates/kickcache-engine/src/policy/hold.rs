//! Freezes the main queue if the working set resembles a loop larger than the cache.
//!
//! A cache that keeps a part of the loop and admits little else hits that part in each pass. Two miniatures of the
//! cache receive the same sample of the requests: the usual one admits every block, the holding one few read blocks
//! once it is full. A large lead of the holding one in hits freezes main.
//!
//! Sources: bimodal insertion and set duelling (Qureshi et al., *Adaptive Insertion Policies for High Performance
//! Caching*, ISCA 2007), with miniatures in place of dedicated sets; the comparison of admitted and replaced blocks by
//! counts that age (Einziger et al., *TinyLFU: A Highly Efficient Cache Admission Policy*, ACM Transactions on Storage,
//! 2017).

use crate::policy::ghost::TURNS_ALL;
use crate::policy::miniature::{BLOCKS_MAX, Intake, LookupResult, Miniature, Use};
use crate::policy::returns::{Returned, Returns};
use crate::policy::turn::{HOLD_AHEAD, HOLD_ROUND, HOLD_TURN};
use crate::units::{BlockKey, VolumeId};

/// While main is frozen, one block, read-ahead included, is admitted for this many missed blocks regardless of its
/// count, if there is room.
const PART: u64 = 28;
/// Fractions in a unit of the miniatures' clock.
const FINE: u64 = 256;
/// The sample is at most one block in two to the power of this.
const SAMPLE_BITS_MIN: u32 = 5;
/// The lowest bit of the hash that selects the sample.
const SAMPLE_SHIFT: u32 = 16;
/// Required lead of the holding miniature in hits, in eighths of a miniature's blocks, [`LEAD_MIN`] at least.
const LEAD_EIGHTHS: u64 = 6;
const LEAD_MIN: u64 = 64;
/// The largest lead over soon reused blocks is the required lead divided by this.
const SOON_SHARE: i64 = 2;
/// Main may soon be released if the lead over soon reused blocks is below this many quarters of its maximum.
const DOUBT_QUARTERS: i64 = 3;
/// The holding miniature is behind by at most the required lead divided by this.
const BEHIND_SHARE: i64 = 6;
/// Leads are counted in hits times this.
const MARGIN_SHARE: i64 = 32;
/// Miniatures have this share of the room for their sample in the cache, in percent.
const ROOM_PERCENT: u64 = 95;

#[derive(Debug)]
pub(crate) struct Hold {
    sample: u64,
    usual: Miniature,
    holding: Miniature,
    /// The lead of the holding miniature that freezes main, and the largest that counts, in hits times
    /// [`MARGIN_SHARE`].
    lead_max: i64,
    /// The present lead of the holding miniature, in the units of `lead_max`.
    lead: i64,
    /// The lead if only hits on soon reused blocks count for the usual miniature, in the units of `lead_max`.
    soon_lead: i64,
    is_on: bool,
    /// Main was frozen, and the frozen blocks have not proved useless since.
    was_on: bool,
    /// Room for missed blocks while main is frozen, in blocks.
    room: u64,
    /// Blocks that missed since a miss was last due for admission regardless of its count.
    passed: u64,
    /// The end of the last turn, by the miniatures' clock.
    turns_until: u64,
    /// The time from which the next look at a segment is counted, in [`FINE`] fractions of the miniatures' clock.
    look_at: u64,
    pub(super) returns: Returns,
    /// The volume with the request that released main, until [`Hold::take_changed`].
    changed: Option<VolumeId>,
    /// The lead showed that the frozen blocks are useless, until [`Hold::take_stale`].
    is_stale: bool,
    /// Main was released because of [`Returned::InVain`], until [`Hold::take_in_vain`].
    is_in_vain: bool,
}

impl Hold {
    pub(crate) fn new(capacity: u64) -> Hold {
        let mut bits = SAMPLE_BITS_MIN;
        while capacity >> bits > BLOCKS_MAX {
            bits += 1;
        }
        let room = (capacity * ROOM_PERCENT / 100) >> bits;
        let usual = Miniature::new(room, Intake::All);
        let lead_max =
            i64::try_from((usual.capacity() * tuned!(Lead, LEAD_EIGHTHS) / 8).max(LEAD_MIN)).expect("few");
        Hold {
            sample: ((1 << bits) - 1) << SAMPLE_SHIFT,
            usual,
            holding: Miniature::new(room, Intake::Often),
            lead_max: lead_max * tuned!(Margin, MARGIN_SHARE),
            lead: 0,
            soon_lead: 0,
            is_on: false,
            was_on: false,
            room: 0,
            passed: 0,
            turns_until: 0,
            look_at: 0,
            returns: Returns::new(capacity),
            changed: None,
            is_stale: false,
            is_in_vain: false,
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.usual.memory_bytes() + self.holding.memory_bytes() + self.returns.memory_bytes()
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.is_on
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.soon_lead * 4 < self.soon_lead_max() * DOUBT_QUARTERS
    }

    #[inline]
    pub(crate) fn observe(&mut self, key: BlockKey, how: Use) {
        let hash = key.hash();
        if hash & self.sample == 0 {
            self.compare(hash, key.volume(), how);
        }
    }

    /// A hit of a block that was read ahead; neither miniature reads ahead.
    pub(crate) fn on_read_ahead(&mut self, key: BlockKey) {
        if key.hash() & self.sample == 0 {
            self.lead = self.bound(self.lead - tuned!(Margin, MARGIN_SHARE), self.lead_max);
            self.soon_lead = self.bound(self.soon_lead - tuned!(Margin, MARGIN_SHARE), self.soon_lead_max());
        }
    }

    #[inline(never)]
    fn compare(&mut self, hash: u64, volume: VolumeId, how: Use) {
        let print = u32::try_from(hash >> 32).expect("32 bits");
        let usual = self.usual.access(print, how);
        let holding = self.holding.access(print, how).is_hit();
        let margin = if self.was_on { 0 } else { i64::from(usual.is_hit()) };
        let ahead = |usual| (i64::from(holding) - i64::from(usual)) * tuned!(Margin, MARGIN_SHARE);
        self.lead = self.bound(self.lead + ahead(usual.is_hit()) - margin, self.lead_max);
        self.soon_lead =
            self.bound(self.soon_lead + ahead(usual == LookupResult::Soon), self.soon_lead_max());
        if self.is_on && self.lead.min(self.soon_lead) <= 0 {
            (self.is_on, self.lead, self.soon_lead) = (false, 0, 0);
            self.changed = Some(volume);
        } else if !self.is_on && self.lead == self.lead_max && self.holding.is_full() {
            (self.is_on, self.was_on, self.soon_lead) = (true, true, self.soon_lead_max());
            self.room = 0;
        }
        if self.lead.min(self.soon_lead) == -self.lead_max / tuned!(Behind, BEHIND_SHARE) && self.was_on {
            self.is_stale = true;
            self.begin_again();
        }
    }

    fn bound(&self, lead: i64, most: i64) -> i64 {
        lead.clamp(-self.lead_max / tuned!(Behind, BEHIND_SHARE), most)
    }

    fn soon_lead_max(&self) -> i64 {
        self.lead_max / tuned!(SoonLead, SOON_SHARE)
    }

    fn begin_again(&mut self) {
        self.was_on = false;
        self.holding.clear();
    }

    pub(super) fn on_held_miss(&mut self, key: BlockKey, blocks: u32, hits: u64) -> Returned {
        let returned = self.returns.on_miss(key, blocks, hits);
        if matches!(returned, Returned::InVain { .. }) {
            (self.is_on, self.lead, self.soon_lead) = (false, 0, 0);
            (self.changed, self.is_in_vain) = (Some(key.volume()), true);
            self.begin_again();
        }
        returned
    }

    pub(crate) fn take_changed(&mut self) -> Option<VolumeId> {
        self.changed.take()
    }

    pub(crate) fn take_stale(&mut self) -> bool {
        core::mem::take(&mut self.is_stale)
    }

    pub(crate) fn take_in_vain(&mut self) -> bool {
        core::mem::take(&mut self.is_in_vain)
    }

    /// Turns since the last call, at most [`TURNS_ALL`].
    pub(super) fn take_turns(&mut self) -> u16 {
        let turn = tuned!(HoldTurn, HOLD_TURN) * self.usual.capacity();
        let turns = (self.usual.clock() - self.turns_until) / turn;
        self.turns_until += turns * turn;
        u16::try_from(turns.min(TURNS_ALL.into())).expect("few")
    }

    /// Whether main is frozen, and the next one of `count` segments is due for a look.
    pub(crate) fn wants_look(&self, count: u64) -> bool {
        self.is_on && self.usual.clock() * FINE >= self.look_at + self.between_looks(count)
    }

    pub(crate) fn on_look(&mut self, count: u64) {
        let next = self.look_at + self.between_looks(count);
        let behind_max = self.between_looks(count).max(FINE);
        self.look_at = next.max((self.usual.clock() * FINE).saturating_sub(behind_max));
    }

    /// The time between two looks by the clock of the miniatures, in [`FINE`] fractions of a unit.
    fn between_looks(&self, count: u64) -> u64 {
        (tuned!(HoldRound, HOLD_ROUND) * self.usual.capacity() * FINE / count.max(1)).max(1)
    }

    /// Whether more cold blocks are to make room, in segments of this many blocks.
    pub(crate) const fn wants_room(&self, blocks: u64) -> bool {
        self.room < HOLD_AHEAD * blocks
    }

    pub(crate) const fn on_room(&mut self, blocks: u64) {
        self.room += blocks;
    }

    /// The cache has room for this many blocks without dropping any block.
    pub(crate) fn on_unused(&mut self, blocks: u64) {
        self.room = self.room.max(blocks);
    }

    /// Whether a miss of this many blocks is admitted while main is frozen. `often` is the number that missed often
    /// recently; with its read-ahead the miss needs room for `needed`.
    pub(crate) fn takes_in(&mut self, missed: u64, often: u64, needed: u64) -> bool {
        self.passed += missed;
        let is_turn = self.passed >= tuned!(TakenIn, PART) * needed;
        let takes = (often * 2 > missed || is_turn) && self.room >= needed;
        if takes {
            self.room -= needed;
        }
        if is_turn {
            self.passed = 0;
        }
        takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::BlockIndex;

    const CAPACITY: u64 = 32_768;

    fn read(hold: &mut Hold, blocks: impl Iterator<Item = u64>) {
        blocks.for_each(|block| {
            hold.observe(BlockKey::new(VolumeId::new(3), BlockIndex::new(block)), Use::Read);
        });
    }

    fn skewed(count: u64, from: u64, blocks: u64) -> impl Iterator<Item = u64> {
        (0..count).map(move |number| {
            let mixed = BlockKey::new(VolumeId::new(0), BlockIndex::new(number)).hash();
            let part = if mixed.is_multiple_of(10) { blocks } else { blocks / 10 };
            from + (mixed >> 8) % part
        })
    }

    fn looped(length: u64, passes: u64) -> impl Iterator<Item = u64> {
        (0..length * passes).map(move |number| number % length)
    }

    fn held() -> Hold {
        let mut hold = Hold::new(CAPACITY);
        read(&mut hold, looped(2 * CAPACITY, 4));
        assert!(hold.is_on());
        hold
    }

    #[test]
    fn main_is_held_for_a_loop_longer_than_the_cache() {
        for tenths in [11, 15, 20, 40] {
            let mut hold = Hold::new(CAPACITY);
            read(&mut hold, looped(CAPACITY / 10 * tenths, 3));
            assert!(hold.is_on(), "{tenths}");
            for pass in 4..=20 {
                for part in 0..tenths {
                    let blocks = CAPACITY / 10;
                    read(&mut hold, part * blocks..(part + 1) * blocks);
                    assert!(hold.is_on(), "{tenths}, pass {pass}");
                }
            }
        }
    }

    #[test]
    fn main_is_let_go_soon_for_a_loop_that_fits() {
        let mut hold = held();
        read(&mut hold, (0..CAPACITY).map(|number| (1 << 30) + number % (CAPACITY / 2)));
        assert!(!hold.is_on());
    }

    #[test]
    fn main_is_not_frozen_for_fitting_loops_or_skewed_reads() {
        let mut hold = Hold::new(CAPACITY);
        read(&mut hold, looped(CAPACITY * 8 / 10, 8));
        assert!(!hold.is_on());
        read(&mut hold, skewed(20 * CAPACITY, 1 << 30, 4 * CAPACITY));
        assert!(!hold.is_on() && !hold.take_stale());
    }

    #[test]
    fn main_is_not_frozen_for_a_loop_with_read_ahead() {
        let mut hold = Hold::new(CAPACITY);
        for block in looped(2 * CAPACITY, 8) {
            let key = BlockKey::new(VolumeId::new(3), BlockIndex::new(block));
            hold.observe(key, Use::Read);
            if !block.is_multiple_of(16) {
                hold.on_read_ahead(key);
            }
        }
        assert!(!hold.is_on());
    }

    #[test]
    fn a_frozen_main_turns_stale_when_other_blocks_are_used() {
        let mut hold = held();
        assert!(!hold.take_stale());
        read(&mut hold, skewed(CAPACITY, 1 << 30, 2 * CAPACITY));
        assert!(!hold.is_on() && hold.take_stale());
        assert_eq!((hold.take_changed(), hold.take_changed()), (Some(VolumeId::new(3)), None));
        assert!(!hold.take_stale(), "said once");
    }

    #[test]
    fn main_is_walked_once_during_five_cache_sizes() {
        let mut hold = held();
        let (mut looks, mut turns) = (0, 0);
        hold.take_turns();
        hold.on_look(100);
        for block in looped(2 * CAPACITY, 5) {
            read(&mut hold, core::iter::once(block));
            turns += hold.take_turns();
            if hold.wants_look(100) {
                hold.on_look(100);
                looks += 1;
            }
        }
        assert!(hold.is_on() && (200..=220).contains(&looks), "{looks}");
        assert!((3..=4).contains(&turns), "{turns}");
    }

    #[test]
    fn many_segments_are_gone_round_in_the_same_time() {
        for count in [100_000, 2 << 20, 1 << 30] {
            let mut hold = held();
            hold.on_look(count);
            let mut looks = 0;
            for block in looped(2 * CAPACITY, 5) {
                read(&mut hold, core::iter::once(block));
                for _ in 0..300 {
                    let is_due = hold.wants_look(count);
                    looks += u64::from(is_due);
                    (0..u32::from(is_due)).for_each(|_| hold.on_look(count));
                }
            }
            let most = 5 * 2 * CAPACITY / 32 * FINE;
            assert!(looks >= (2 * count).min(most * 9 / 10) && looks <= 3 * count, "{looks} of {count}");
        }
    }

    #[test]
    fn room_for_a_segment_is_made_ahead_for_whole_misses() {
        let mut hold = held();
        assert!(hold.wants_room(100) && !hold.takes_in(1, 1, 1));
        hold.on_room(50);
        assert!(hold.wants_room(100));
        hold.on_room(60);
        assert!(!hold.wants_room(100));
        let mut takes = |missed, often, filled| hold.takes_in(missed, often, filled);
        assert!(!takes(111, 111, 111) && !takes(100, 50, 100));
        assert!(takes(60, 31, 100) && takes(10, 10, 10) && !takes(1, 1, 1));
    }

    #[test]
    fn one_miss_in_many_is_admitted_with_its_read_ahead() {
        let mut hold = held();
        hold.on_room(1_000);
        let mut taken = |filled| (0..2_800).filter(|_| hold.takes_in(1, 0, filled)).count();
        assert_eq!(taken(1), 100);
        assert!((6..=7).contains(&taken(16)), "each fill brings 16 blocks");
    }

    #[test]
    fn miniatures_use_less_than_a_byte_per_block() {
        for capacity in [4_096, 100_000, 131_072, 200_000, 16 << 20] {
            let hold = Hold::new(capacity);
            assert!(hold.memory_bytes() < capacity, "{} of {capacity}", hold.memory_bytes());
        }
        let memory = Hold::new(CAPACITY).memory_bytes();
        assert_eq!(held().memory_bytes(), memory);
    }
}
