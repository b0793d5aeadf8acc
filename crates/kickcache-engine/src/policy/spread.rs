//! How far apart the blocks of a volume's first requests lie: whether their neighbours are requested in time.
//!
//! The number of blocks that fall into an extent that was seen before shows the number of extents (birthday problem).
//! With room for C of E extents, a block that is read ahead is requested with a chance of C/E before misses alone would
//! have filled the cache.

use alloc::boxed::Box;

use crate::config::FILL_WINDOW_MAX;
use crate::time::Instant;
use crate::units::{BLOCK_SIZE, BlockIndex};

const EXTENT_BLOCKS: u64 = FILL_WINDOW_MAX / BLOCK_SIZE;
/// Nanoseconds until misses alone would have filled the cache, times the chance C/E: read-ahead pays from here on.
const PAYS: u64 = 60_000_000_000;
/// If misses alone would fill the cache in fewer nanoseconds, the clock is not valid.
const ALONE_MIN: u64 = 1_000_000_000;
/// The most nanoseconds that count for a pause between misses.
const REST: u64 = 100_000_000;
/// The rate of misses is the mean of about this many, and is valid after twice as many.
const PACE_MISSES: u64 = 32;
/// Number of groups of [`PACE_MISSES`] misses that are kept.
const GROUPS: usize = 8;
/// The number of the last first requests with stored hashes.
const LAST: usize = 128;
/// The most blocks that are counted; after a verdict on these, the count begins again.
const COUNT_MAX: u32 = 1_024;
/// Places for fingerprints, of which a quarter is used at most.
const PLACES: usize = 4 * COUNT_MAX as usize;
/// The fewest meetings that prove few extents, and the fewest expected meetings with which a lower number proves many.
const MEETINGS_MIN: u64 = 8;
/// Above this number of extents, hardly any two of the counted blocks share one.
const EXTENTS_MAX: u64 = 1 << 20;
const ONE: u64 = 1 << 31;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Distance {
    /// No verdict yet.
    Unknown,
    /// Few enough extents for the cache; also if the clock is not valid, or if even [`COUNT_MAX`] blocks are too few
    /// for a proof.
    Near,
    /// Too many extents.
    Far,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scale {
    /// Blocks that the cache has room for.
    pub(crate) capacity: u64,
    /// Bytes of the volume.
    pub(crate) size: u64,
}

/// The rate of misses: sums in which older misses count less.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pace {
    last_miss: Instant,
    /// Misses that were counted so far.
    count: u64,
    nanos: u64,
    /// Missed blocks, in 1/1024.
    blocks: u64,
    /// Nanoseconds of the misses since the last group.
    grouped: u64,
    /// The nanoseconds of each of the last groups, the newest first; `u64::MAX` without a group.
    groups: [u64; GROUPS],
}

impl Pace {
    const fn new() -> Pace {
        let groups = [u64::MAX; GROUPS];
        Pace { last_miss: Instant::ZERO, count: 0, nanos: 0, blocks: 0, grouped: 0, groups }
    }

    fn on_miss(&mut self, now: Instant, blocks: u64) {
        let nanos = now.since(self.last_miss).as_nanos().min(REST);
        self.last_miss = now;
        self.count = self.count.saturating_add(1);
        self.nanos = self.nanos - self.nanos / PACE_MISSES + nanos;
        self.blocks = self.blocks - self.blocks / PACE_MISSES + blocks * 1024;
        self.grouped += nanos;
        if self.count.is_multiple_of(PACE_MISSES) {
            self.groups.rotate_right(1);
            self.groups[0] = core::mem::take(&mut self.grouped);
        }
    }

    /// Keeps only the newest groups: one for [`PACE_MISSES`] of `count` misses.
    fn forget_all_but(&mut self, count: usize) {
        let kept = count / usize::try_from(PACE_MISSES).expect("few");
        self.groups.iter_mut().skip(kept).for_each(|group| *group = u64::MAX);
    }

    const fn is_known(&self) -> bool {
        self.count >= 2 * PACE_MISSES
    }

    fn filling(&self, capacity: u64) -> Filling {
        let fastest = self.groups.iter().fold(self.nanos, |fastest, group| fastest.min(*group));
        let of =
            |nanos: u64| u128::from(nanos) * u128::from(capacity) * 1024 / u128::from(self.blocks.max(1));
        Filling { now: of(self.nanos), fastest: of(fastest) }
    }
}

/// Nanoseconds in which misses alone would fill a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Filling {
    now: u128,
    /// At the rate of the fastest group, or at the present rate if that is faster.
    fastest: u128,
}

/// The most extents over which blocks may be spread, at either rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Most {
    now: u64,
    fastest: u64,
}

/// Meetings that prove a limit on the number of extents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct RequiredMeetings {
    meetings: u32,
    /// Whether at least [`MEETINGS_MIN`] meetings are expected.
    is_enough: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Spread {
    /// Fingerprints of the extents that were met.
    met: Box<[u16; PLACES]>,
    /// Counted blocks, and blocks among them in an extent that was met before.
    count: u32,
    meetings: u32,
    /// Hashes of the extents of the last blocks; the next one is stored at `next`.
    last: [u32; LAST],
    next: usize,
    pace: Pace,
    is_timed: bool,
    is_proven: bool,
    distance: Distance,
}

impl Spread {
    pub(crate) fn new() -> Spread {
        Spread {
            met: Box::new([0; PLACES]),
            count: 0,
            meetings: 0,
            last: [0; LAST],
            next: 0,
            pace: Pace::new(),
            is_timed: false,
            is_proven: false,
            distance: Distance::Unknown,
        }
    }

    pub(crate) fn on_miss(&mut self, now: Instant, blocks: u64) {
        self.pace.on_miss(now, blocks);
    }

    /// The first known request of a block.
    pub(crate) fn on_first(&mut self, block: BlockIndex) {
        let hash = (block.get() / EXTENT_BLOCKS + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let hash = u32::try_from(hash).expect("32 bits");
        self.last[self.next] = hash;
        self.next = (self.next + 1) % LAST;
        self.count_in(hash);
    }

    fn count_in(&mut self, hash: u32) {
        if self.count < COUNT_MAX {
            self.count += 1;
            self.meetings += u32::from(self.meet(hash));
        }
    }

    /// Whether the extent with this hash was met before; from now on it counts as met.
    fn meet(&mut self, hash: u32) -> bool {
        let print = u16::try_from(hash >> 16).expect("16 bits").max(1);
        let first = usize::try_from(hash).expect("32 bits");
        let mut places = (0..PLACES).map(|step| first.wrapping_add(step) % PLACES);
        let place = places.find(|place| self.met[*place] == 0 || self.met[*place] == print);
        let found = &mut self.met[place.expect("most places are empty")];
        core::mem::replace(found, print) == print
    }

    /// The working set of the volume has changed: only the last `count` blocks remain valid, at most [`LAST`].
    pub(crate) fn forget_all_but(&mut self, count: usize) {
        self.begin_again();
        self.distance = Distance::Unknown;
        self.pace.forget_all_but(count);
        let kept = count.min(LAST);
        for back in (1..=kept).rev() {
            self.count_in(self.last[(self.next + LAST - back) % LAST]);
        }
    }

    fn begin_again(&mut self) {
        self.met.fill(0);
        (self.count, self.meetings) = (0, 0);
    }

    /// Gives a verdict; while the rate of misses is unknown, the last one.
    pub(crate) fn judge(&mut self, scale: Scale) -> Distance {
        if !self.pace.is_known() {
            return self.distance;
        }
        let most = self.extents_max(scale);
        let proof = self.meetings_asked(most.fastest);
        let is_small = most.fastest >= scale.size.div_ceil(FILL_WINDOW_MAX);
        let is_over = self.count == COUNT_MAX;
        self.is_proven = self.is_timed && (is_small || self.meetings >= proof.meetings);
        let refutation = self.meetings_asked(most.now);
        self.distance = if !self.is_timed || self.is_proven {
            Distance::Near
        } else if refutation.is_enough && self.meetings < refutation.meetings {
            Distance::Far
        } else if is_over && !proof.is_enough {
            Distance::Near
        } else {
            self.distance
        };
        if is_over {
            self.begin_again();
        }
        self.distance
    }

    /// How many meetings prove that the blocks lie in at most this many extents.
    fn meetings_asked(&self, extents: u64) -> RequiredMeetings {
        let expected = meetings_expected(u64::from(self.count), extents);
        let meetings = u32::try_from(expected.max(MEETINGS_MIN)).expect("at most as many as blocks");
        RequiredMeetings { meetings, is_enough: expected >= MEETINGS_MIN }
    }

    /// The most extents over which blocks may be spread for read-ahead to pay.
    fn extents_max(&mut self, scale: Scale) -> Most {
        let Filling { now, fastest } = self.pace.filling(scale.capacity);
        self.is_timed = fastest >= u128::from(ALONE_MIN);
        let most = |alone: u128| {
            let most = u128::from(scale.capacity / EXTENT_BLOCKS) * alone / u128::from(PAYS);
            u64::try_from(most).unwrap_or(u64::MAX).max(1)
        };
        Most { now: most(now), fastest: most(fastest) }
    }

    pub(crate) const fn distance(&self) -> Distance {
        self.distance
    }

    /// Whether the last verdict had a valid clock.
    pub(crate) const fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// Whether the last verdict is proven: enough blocks met each other, or the volume is small.
    pub(crate) const fn is_proven(&self) -> bool {
        self.is_proven
    }
}

/// The number of `count` blocks that meet another if they are spread evenly over `extents`: all except one per extent
/// that is met.
fn meetings_expected(count: u64, extents: u64) -> u64 {
    if extents > EXTENTS_MAX {
        return 0;
    }
    // The chance that none of `count` blocks falls into an extent, as a part of `ONE`.
    let (mut missed, mut factor, mut rest) = (ONE, ONE - ONE / extents, count);
    while rest > 0 {
        if rest % 2 == 1 {
            missed = missed * factor / ONE;
        }
        factor = factor * factor / ONE;
        rest /= 2;
    }
    count.saturating_sub((extents * (ONE - missed)).div_ceil(ONE))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::units::{BlockKey, VolumeId};

    const SECOND: u64 = 1_000_000_000;
    /// 256 MiB.
    const CAPACITY: u64 = 65_536;
    const SCALE: Scale = Scale { capacity: CAPACITY, size: 1 << 40 };

    /// `count` blocks are missed, 300 a second, spread over `extents`.
    fn miss(spread: &mut Spread, count: u64, extents: u64) -> Distance {
        let from = spread.pace.last_miss.as_nanos();
        for number in 1..=count {
            spread.on_miss(Instant::from_nanos(from + number * SECOND / 300), 1);
            let place = BlockKey::new(VolumeId::new(0), BlockIndex::new(from / 1_000 + number)).hash();
            spread.on_first(BlockIndex::new(place % extents * EXTENT_BLOCKS));
        }
        spread.judge(SCALE)
    }

    #[test]
    fn a_few_hundred_blocks_separate_few_extents_from_many() {
        for (extents, distance) in [(256, Distance::Near), (512, Distance::Near), (3_072, Distance::Far)] {
            let mut spread = Spread::new();
            let verdicts: Vec<Distance> = (0..20).map(|_| miss(&mut spread, 256, extents)).collect();
            assert_eq!(verdicts, [distance; 20], "{extents}");
        }
    }

    #[test]
    fn meetings_are_expected_as_chance_has_them() {
        let cases =
            [(128, 9, 119), (128, 256, 27), (1_024, 1_024, 376), (1_024, 3_072, 153), (1_000, 1 << 30, 0)];
        for (count, extents, meetings) in cases {
            let expected = meetings_expected(count, extents);
            assert!(expected.abs_diff(meetings) <= 1, "{count} over {extents}: {expected}");
        }
    }

    #[test]
    fn hourly_fills_of_a_slow_origin_may_be_spread_further() {
        let mut spread = Spread::new();
        (0..1_024).for_each(|number| spread.on_miss(Instant::from_nanos((number + 1) * SECOND / 10), 1));
        let most = spread.extents_max(SCALE).now;
        assert!((27_500..28_500).contains(&most), "{most}");
    }

    #[test]
    fn old_fast_misses_do_not_count() {
        let mut spread = Spread::new();
        (0..10_000).for_each(|number| spread.on_miss(Instant::from_nanos(number * 1_000), 256));
        assert_eq!(miss(&mut spread, 256, 256), Distance::Near);
    }

    #[test]
    fn a_few_rare_misses_give_no_origin_latency() {
        let mut spread = Spread::new();
        (0..12).for_each(|number| spread.on_miss(Instant::from_nanos((number + 1) * SECOND / 4), 1));
        (0..12).for_each(|number| spread.on_first(BlockIndex::new(number * EXTENT_BLOCKS)));
        let scale = Scale { size: 1 << 32, ..SCALE };
        assert_eq!((spread.judge(scale), spread.is_proven()), (Distance::Unknown, false));
        assert_eq!(miss(&mut spread, 512, 3_072), Distance::Far);
    }

    #[test]
    fn an_idle_time_gives_no_origin_latency() {
        let mut spread = Spread::new();
        assert_eq!(miss(&mut spread, 512, 3_072), Distance::Far);
        spread.on_miss(Instant::from_nanos(spread.pace.last_miss.as_nanos() + 3_600 * SECOND), 1);
        assert_eq!(miss(&mut spread, 512, 3_072), Distance::Far);
    }

    #[test]
    fn stalls_of_the_clock_are_no_slow_origin() {
        let mut spread = Spread::new();
        for round in 0..20 {
            assert_eq!(miss(&mut spread, 192, 3_072), Distance::Far, "{round}");
            for _ in 0..6 {
                spread.on_miss(Instant::from_nanos(spread.pace.last_miss.as_nanos() + SECOND / 4), 1);
                assert_eq!(miss(&mut spread, 10, 3_072), Distance::Far, "{round}");
            }
        }
    }

    #[test]
    fn an_origin_becomes_slow_after_its_remembered_misses() {
        let mut spread = Spread::new();
        assert_eq!(miss(&mut spread, 512, 3_072), Distance::Far);
        let mut verdicts = (0..8).map(|_| {
            (0..32).for_each(|_| {
                spread.on_miss(Instant::from_nanos(spread.pace.last_miss.as_nanos() + SECOND / 20), 1);
            });
            miss(&mut spread, 0, 3_072)
        });
        assert_eq!(verdicts.by_ref().take(7).collect::<Vec<_>>(), [Distance::Far; 7]);
        assert_eq!(verdicts.next(), Some(Distance::Near));
    }

    #[test]
    fn small_volumes_and_clockless_ones_are_near() {
        let mut spread = Spread::new();
        (0..512).for_each(|_| spread.on_miss(Instant::ZERO, 1));
        (0..512).for_each(|number| spread.on_first(BlockIndex::new(number * EXTENT_BLOCKS)));
        assert_eq!((spread.judge(SCALE), spread.is_proven()), (Distance::Near, false), "no time passed");
        (0..512).for_each(|number| spread.on_miss(Instant::from_nanos((number + 1) * SECOND / 300), 1));
        let scale = Scale { size: 1 << 28, ..SCALE };
        assert_eq!((spread.judge(scale), spread.is_timed()), (Distance::Near, true));
    }

    #[test]
    fn all_but_the_last_blocks_can_be_dropped() {
        let mut spread = Spread::new();
        assert_eq!(miss(&mut spread, 512, 3_072), Distance::Far);
        spread.forget_all_but(0);
        assert_eq!((spread.distance(), spread.count), (Distance::Unknown, 0));
        assert_eq!(miss(&mut spread, 32, 256), Distance::Unknown);
        spread.forget_all_but(32);
        assert_eq!((miss(&mut spread, 0, 256), spread.count), (Distance::Unknown, 32));
        assert_eq!(miss(&mut spread, 96, 256), Distance::Near);
    }
}
