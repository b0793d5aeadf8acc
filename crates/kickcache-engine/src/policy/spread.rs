//! How far apart the blocks lie that a volume asks for first: whether what lies around them is asked for in time.
//!
//! Of n blocks that fall evenly into E extents about n^2/2E meet one that came before, so that a few hundred blocks tell
//! how many extents there are. With room for C extents a block that is read ahead is asked for with a chance of C/E before
//! misses alone would have filled the cache, and for so long it is worth more than the room it takes. What it costs,
//! a block written to the cache device, weighs the more the sooner that is: the cache is written over as often.

use alloc::boxed::Box;

use crate::config::FILL_WINDOW_MAX;
use crate::time::Instant;
use crate::units::{BLOCK_SIZE, BlockIndex};

const EXTENT_BLOCKS: u64 = FILL_WINDOW_MAX / BLOCK_SIZE;
/// Nanoseconds until misses alone would have filled the cache, times the chance: from here on reading ahead pays.
const PAYS: u64 = 60_000_000_000;
/// Nanoseconds in which no device fills a cache: the clock is not one of devices.
const ALONE_MIN: u64 = 1_000_000_000;
/// Nanoseconds without a miss that count at most: a volume that rests says nothing of how fast its origin is.
const REST: u64 = 100_000_000;
/// Blocks after which the count begins again.
const COUNT_MAX: u32 = 1_024;
/// Places for fingerprints, of which a quarter is used at most.
const PLACES: usize = 4 * COUNT_MAX as usize;
/// Meetings that a verdict takes: this many, or this many expected.
const MEETINGS_MIN: u64 = 8;

/// In how many extents those blocks lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Distance {
    /// Too few blocks were seen.
    Unknown,
    /// In few enough for the cache, or nothing shows that there are too many.
    Near,
    /// In too many: what lies around a block is hardly ever asked for in time.
    Far,
}

/// What is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scale {
    /// Blocks that the volume missed so far.
    pub(crate) missed: u64,
    /// Blocks that the cache has room for.
    pub(crate) capacity: u64,
    /// Bytes of the volume.
    pub(crate) size: u64,
}

/// The policy's memory of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Spread {
    /// Fingerprints of the extents that were met.
    met: Box<[u16; PLACES]>,
    /// Blocks seen, and those of them that met another.
    count: u32,
    meetings: u32,
    /// The last miss.
    last_miss: Instant,
    /// Nanoseconds of misses since the last verdict, and the blocks that were missed until then.
    nanos: u64,
    missed: u64,
    /// Whether the last verdict could tell time.
    is_timed: bool,
    distance: Distance,
}

impl Spread {
    pub(crate) fn new() -> Spread {
        Spread {
            met: Box::new([0; PLACES]),
            count: 0,
            meetings: 0,
            last_miss: Instant::ZERO,
            nanos: 0,
            missed: 0,
            is_timed: false,
            distance: Distance::Unknown,
        }
    }

    /// Something missed.
    pub(crate) fn on_miss(&mut self, now: Instant) {
        self.nanos += now.since(self.last_miss).as_nanos().min(REST);
        self.last_miss = now;
    }

    /// A block is asked for that was not asked for before, as far as is known.
    pub(crate) fn on_first(&mut self, block: BlockIndex) {
        if self.count < COUNT_MAX {
            self.count += 1;
            self.meetings += u32::from(self.meet(block.get() / EXTENT_BLOCKS));
        }
    }

    /// Whether the extent was met before; it is from now on.
    fn meet(&mut self, extent: u64) -> bool {
        let hash = (extent + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let print = u16::try_from(hash >> 48).expect("16 bits").max(1);
        let first = usize::try_from(hash >> 24).expect("40 bits");
        let mut places = (0..PLACES).map(|step| (first + step) % PLACES);
        let place = places.find(|place| self.met[*place] == 0 || self.met[*place] == print);
        let found = &mut self.met[place.expect("most places are empty")];
        core::mem::replace(found, print) == print
    }

    /// The volume asks for other blocks: what was seen says nothing of them.
    pub(crate) fn forget(&mut self) {
        self.begin_again();
        self.distance = Distance::Unknown;
    }

    fn begin_again(&mut self) {
        self.met.fill(0);
        (self.count, self.meetings) = (0, 0);
    }

    /// Gives a verdict.
    pub(crate) fn judge(&mut self, scale: Scale) -> Distance {
        let most = self.extents_max(scale);
        let (count, meetings) = (u64::from(self.count), u64::from(self.meetings));
        let expected = meetings_expected(count, most);
        let is_small = most >= scale.size.div_ceil(FILL_WINDOW_MAX);
        let is_over = self.count == COUNT_MAX;
        self.distance = if !self.is_timed || is_small || meetings >= expected.max(MEETINGS_MIN) {
            Distance::Near
        } else if expected >= MEETINGS_MIN {
            Distance::Far
        } else if is_over {
            Distance::Near
        } else {
            self.distance
        };
        if is_over {
            self.begin_again();
        }
        self.distance
    }

    /// Over how many extents blocks may be spread for reading ahead to pay.
    fn extents_max(&mut self, scale: Scale) -> u64 {
        let blocks = scale.missed.saturating_sub(self.missed).max(1);
        self.missed = scale.missed;
        let nanos = core::mem::take(&mut self.nanos);
        let alone = u128::from(nanos) * u128::from(scale.capacity) / u128::from(blocks);
        self.is_timed = alone >= u128::from(ALONE_MIN);
        let most = u128::from(scale.capacity / EXTENT_BLOCKS) * alone / u128::from(PAYS);
        u64::try_from(most).unwrap_or(u64::MAX).max(1)
    }

    pub(crate) const fn distance(&self) -> Distance {
        self.distance
    }

    /// Whether the last verdict could tell time.
    pub(crate) const fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// Blocks seen.
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }
}

/// How many of `count` blocks meet another if they are spread evenly over `extents`: the first two terms of the
/// series, where the others are small.
const fn meetings_expected(count: u64, extents: u64) -> u64 {
    if count >= extents {
        return count / 3;
    }
    count * count / (2 * extents) - count * count / extents * count / (6 * extents)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::units::{BlockKey, VolumeId};

    const SECOND: u64 = 1_000_000_000;
    /// 256 MiB.
    const CAPACITY: u64 = 65_536;
    const SCALE: Scale = Scale { missed: 0, capacity: CAPACITY, size: 1 << 40 };

    /// `count` blocks are missed, 300 a second, spread over `extents`.
    fn miss(spread: &mut Spread, count: u64, extents: u64) -> Distance {
        let from = spread.last_miss.as_nanos();
        for number in 1..=count {
            spread.on_miss(Instant::from_nanos(from + number * SECOND / 300));
            let place = BlockKey::new(VolumeId::new(0), BlockIndex::new(spread.missed + number)).hash();
            spread.on_first(BlockIndex::new(place % extents * EXTENT_BLOCKS));
        }
        spread.judge(Scale { missed: spread.missed + count, ..SCALE })
    }

    #[test]
    fn a_few_hundred_blocks_tell_few_extents_from_many() {
        for (extents, distance) in [(256, Distance::Near), (512, Distance::Near), (3_072, Distance::Far)] {
            let mut spread = Spread::new();
            let verdicts: Vec<Distance> = (0..20).map(|_| miss(&mut spread, 256, extents)).collect();
            assert_eq!(verdicts, [distance; 20], "{extents}");
        }
    }

    #[test]
    fn what_a_slow_origin_fills_in_an_hour_may_be_spread_further() {
        let mut spread = Spread::new();
        (0..128).for_each(|number| spread.on_miss(Instant::from_nanos((number + 1) * SECOND / 10)));
        assert_eq!(spread.extents_max(Scale { missed: 128, ..SCALE }), 27_962);
    }

    #[test]
    fn a_rest_says_nothing_of_the_origin() {
        let mut spread = Spread::new();
        assert_eq!(miss(&mut spread, 512, 3_072), Distance::Far);
        spread.last_miss = Instant::from_nanos(spread.last_miss.as_nanos() + 3_600 * SECOND);
        assert_eq!(miss(&mut spread, 512, 3_072), Distance::Far);
    }

    #[test]
    fn a_volume_that_is_small_is_near_and_so_is_all_without_a_clock() {
        let mut spread = Spread::new();
        miss(&mut spread, 512, 3_072);
        assert_eq!(spread.judge(Scale { missed: 1 << 20, ..SCALE }), Distance::Near, "no time went by");
        (0..512).for_each(|number| spread.on_miss(Instant::from_nanos((1_000 + number) * SECOND)));
        let scale = Scale { missed: (1 << 20) + 512, size: 1 << 30, ..SCALE };
        assert_eq!((spread.judge(scale), spread.is_timed()), (Distance::Near, true));
    }

    #[test]
    fn what_was_seen_can_be_forgotten() {
        let mut spread = Spread::new();
        assert_eq!(miss(&mut spread, 512, 3_072), Distance::Far);
        spread.forget();
        assert_eq!((spread.distance(), spread.count()), (Distance::Unknown, 0));
        assert_eq!(miss(&mut spread, 32, 256), Distance::Unknown);
        assert_eq!(miss(&mut spread, 128, 256), Distance::Near);
    }
}
