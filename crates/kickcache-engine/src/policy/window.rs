//! How much a miss reads: the fill window of a volume, between one block and 1 MiB.
//!
//! * It opens at once when a volume suddenly misses more than it used to, or other blocks than it used to, and misses what
//!   the cache never knew: what is cached is stale, and has to leave anyway. Where it could not open far, it opens again
//!   when what is stale begins to leave.
//! * Where the blocks that are asked for first lie so far apart that what lies around them is not asked for in time, it is
//!   a block ([`Spread`]).
//! * Else widening looks at the misses themselves: if the other half of the next larger window is cached already,
//!   that window would have brought this block in, unless it was here and had to leave.
//! * Narrowing looks at prefetched blocks that left without a hit; those from before the window opened do not count.

use crate::config::FILL_WINDOW_MIN;
use crate::policy::spread::{Distance, Scale, Spread};
use crate::time::Instant;
use crate::units::{BlockIndex, Sequence};

/// Votes after which the window may change.
const VOTES: u32 = 128;
/// Prefetched blocks after whose end the window may narrow, as a part of the cache's capacity: those that leave first
/// had the least time to be used.
const PATIENCE_SHARE: u64 = 32;
/// Misses after which an opening window doubles.
const OPENING_MISSES: u32 = 8;
/// A volume misses suddenly if it misses more than this many times as often as before, and more than this, in 1/1024.
const SUDDEN_FACTOR: u64 = 2;
const SUDDEN_LEAST: u64 = 51;
/// A volume misses what is known if at least half of what it misses is, in 1/1024; other blocks if suddenly at most one
/// miss in this many is.
const KNOWN_LEAST: u64 = 512;
const OTHERS_PART: u32 = 8;
const START: u64 = 64 << 10;

/// What is known of a block that missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Missed {
    /// Ghost memory remembers it.
    pub(crate) is_known: bool,
    /// A window twice as wide would have brought it in before.
    pub(crate) is_near: bool,
    /// A block further away is cached too: neighbours may be cached by chance.
    pub(crate) is_crowded: bool,
    /// The first block of it.
    pub(crate) block: BlockIndex,
    /// Blocks that reads of the volume found so far.
    pub(crate) hits: u64,
    /// What that means for the cache.
    pub(crate) scale: Scale,
    pub(crate) now: Instant,
    /// The newest sequence number.
    pub(crate) newest: Sequence,
}

/// The window of one volume, in bytes, a power of two.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FillWindow {
    bytes: u64,
    max: u64,
    useful: u32,
    useless: u32,
    misses: u32,
    near: u32,
    crowded: u32,
    known: u32,
    /// Hits up to the last look.
    hits: u64,
    /// How often the volume misses, in 1/1024, and how much of that is known.
    usual: u64,
    usual_known: u64,
    spread: Spread,
    /// Blocks that the last look knew the spread of.
    spread_count: u32,
    opening: bool,
    /// It opens once it is known that this pays.
    wants_to_open: bool,
    /// It opens once more when what is stale leaves.
    wants_room: bool,
    /// The newest sequence numbers at the last look, and at the one before: a change may begin between the two.
    looked: [Sequence; 2],
    /// What was written before does not count as useless.
    opened: Sequence,
}

impl FillWindow {
    pub(crate) fn new(max: u64) -> FillWindow {
        FillWindow {
            bytes: START.min(max),
            max,
            useful: 0,
            useless: 0,
            misses: 0,
            near: 0,
            crowded: 0,
            known: 0,
            hits: 0,
            usual: 0,
            usual_known: 0,
            spread: Spread::new(),
            spread_count: 0,
            opening: false,
            wants_to_open: false,
            wants_room: false,
            looked: [Sequence::new(0); 2],
            opened: Sequence::new(0),
        }
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A prefetched block was hit.
    pub(crate) fn on_useful(&mut self, block: BlockIndex) {
        self.useful += 1;
        self.spread.on_first(block);
    }

    /// A prefetched block left, or was overwritten, without a hit; its segment was begun at `written`, and the cache
    /// has room for `capacity` blocks.
    pub(crate) fn on_useless(&mut self, written: Sequence, capacity: u64) {
        if written < self.opened {
            return;
        }
        self.useless += 1;
        let resolved = self.useful + self.useless;
        if u64::from(resolved) < (capacity / PATIENCE_SHARE).max(u64::from(VOTES)) {
            return;
        }
        if self.useful * 4 < resolved && self.bytes > FILL_WINDOW_MIN {
            self.bytes /= 2;
            self.opening = false;
        }
        self.useful /= 2;
        self.useless /= 2;
    }

    /// A block missed; if the volume suddenly asks for other blocks than before, the sequence number that was the newest
    /// when it did not yet.
    pub(crate) fn on_miss(&mut self, missed: Missed) -> Option<Sequence> {
        self.misses += 1;
        self.known += u32::from(missed.is_known);
        self.near += u32::from(missed.is_near && !missed.is_known);
        self.crowded += u32::from(missed.is_crowded);
        self.spread.on_miss(missed.now);
        if !missed.is_known {
            self.spread.on_first(missed.block);
        }
        if self.opening && self.misses.is_multiple_of(OPENING_MISSES) && self.bytes < self.max {
            self.bytes *= 2;
        }
        if self.misses == VOTES { self.look(missed) } else { None }
    }

    /// What was stale begins to leave; `newest` is the newest sequence number.
    pub(crate) fn on_room(&mut self, newest: Sequence) {
        let is_wanted = core::mem::take(&mut self.wants_room);
        if is_wanted && self.bytes < self.max && self.spread.distance() == Distance::Near {
            self.open(newest);
        }
    }

    fn open(&mut self, newest: Sequence) {
        self.opening = true;
        self.opened = newest;
        (self.useful, self.useless) = (0, 0);
    }

    fn look(&mut self, missed: Missed) -> Option<Sequence> {
        let [last, before] = self.looked;
        let is_change = self.asks_for_others(missed.hits);
        if is_change {
            if self.spread_count > 0 {
                self.spread.forget();
            }
            (self.wants_to_open, self.wants_room, self.usual_known) = (true, true, 0);
        }
        match self.spread.judge(missed.scale) {
            Distance::Near if self.wants_to_open => {
                self.open(missed.newest);
                self.wants_to_open = false;
            }
            Distance::Far => {
                self.bytes = FILL_WINDOW_MIN;
                (self.opening, self.wants_to_open) = (false, false);
            }
            Distance::Near | Distance::Unknown => {
                if self.near * 2 > VOTES + self.crowded && self.bytes < self.max {
                    self.bytes *= 2;
                }
            }
        }
        self.usual_known = (3 * self.usual_known + u64::from(self.known * 1024 / VOTES)) / 4;
        (self.misses, self.near, self.crowded, self.known) = (0, 0, 0, 0);
        self.looked = [missed.newest, last];
        self.spread_count = self.spread.count();
        is_change.then_some(before)
    }

    /// Whether the volume suddenly asks for other blocks than before, `hits` of which were hits in all.
    fn asks_for_others(&mut self, hits: u64) -> bool {
        let new = hits - self.hits;
        self.hits = hits;
        let share = u64::from(VOTES) * 1024 / (u64::from(VOTES) + new);
        let misses_more = share > SUDDEN_FACTOR * self.usual + SUDDEN_LEAST;
        let misses_others =
            self.spread.is_timed() && self.usual_known > KNOWN_LEAST && self.known * OTHERS_PART < VOTES;
        self.usual =
            if share < self.usual { (7 * self.usual + share) / 8 } else { (self.usual + share).div_ceil(2) };
        (misses_more || misses_others) && self.known * 2 < VOTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed() -> Missed {
        Missed {
            is_known: true,
            is_near: false,
            is_crowded: false,
            block: BlockIndex::new(0),
            hits: 0,
            scale: Scale { missed: 0, capacity: 1 << 16, size: 1 << 40 },
            now: Instant::ZERO,
            newest: Sequence::new(5),
        }
    }

    fn narrowed() -> FillWindow {
        let mut window = FillWindow::new(1 << 20);
        (0..10_000).for_each(|_| window.on_useless(Sequence::new(1), 0));
        assert_eq!(window.bytes(), 4096);
        (0..10_000).for_each(|_| {
            window.on_miss(missed());
        });
        assert_eq!(window.bytes(), 4096);
        window
    }

    #[test]
    fn narrows_to_a_block_when_neighbours_are_never_used() {
        narrowed();
    }

    #[test]
    fn stays_as_it_is_when_neighbours_are_cached_by_chance() {
        let mut window = narrowed();
        let by_chance = |number: u32| Missed {
            is_near: !number.is_multiple_of(5),
            is_crowded: !(number + 1).is_multiple_of(5),
            is_known: false,
            ..missed()
        };
        (0..10_000).for_each(|number| {
            window.on_miss(by_chance(number));
        });
        assert_eq!(window.bytes(), 4096);
    }

    #[test]
    fn widens_to_the_maximum_when_neighbours_miss_next() {
        let mut window = narrowed();
        (0..10_000).for_each(|_| {
            window.on_miss(Missed { is_near: true, is_known: false, ..missed() });
        });
        assert_eq!(window.bytes(), 1 << 20);
    }

    #[test]
    fn does_not_widen_for_blocks_that_were_here_and_left() {
        let mut window = narrowed();
        (0..10_000).for_each(|_| {
            window.on_miss(Missed { is_near: true, ..missed() });
        });
        assert_eq!(window.bytes(), 4096);
    }

    #[test]
    fn opens_at_once_when_unknown_blocks_suddenly_miss() {
        let mut window = narrowed();
        let mut hits = 0;
        for _ in 0..10_000 {
            hits += 100;
            window.on_miss(Missed { hits, ..missed() });
        }
        (0..400).for_each(|_| {
            window.on_miss(Missed { is_known: false, hits, ..missed() });
        });
        assert_eq!(window.bytes(), 1 << 20);
        (0..1_000).for_each(|_| window.on_useless(Sequence::new(4), 0));
        assert_eq!(window.bytes(), 1 << 20, "what was written before says nothing");
        (0..10_000).for_each(|_| window.on_useless(Sequence::new(6), 0));
        assert_eq!(window.bytes(), 4096);
    }

    /// Misses of a volume behind a disk of 300 requests a second, spread over `extents`.
    fn miss(window: &mut FillWindow, from: u64, count: u64, is_known: bool, extents: u64) -> bool {
        let mut is_change = false;
        for number in from..from + count {
            let scale = Scale { missed: number, ..missed().scale };
            let now = Instant::from_nanos(number * 3_333_333);
            let block = BlockIndex::new((number.wrapping_mul(0xD134_2543_DE82_EF95) >> 20) % extents * 256);
            let is_change_now = window.on_miss(Missed { is_known, block, scale, now, ..missed() }).is_some();
            is_change |= is_change_now;
        }
        is_change
    }

    #[test]
    fn is_a_block_where_what_is_asked_for_first_lies_far_apart() {
        let mut window = FillWindow::new(1 << 20);
        miss(&mut window, 0, 300, false, 3_072);
        assert_eq!(window.bytes(), 4096);
        let mut window = FillWindow::new(1 << 20);
        miss(&mut window, 0, 300, false, 256);
        assert_eq!(window.bytes(), 1 << 20);
    }

    #[test]
    fn opens_when_other_blocks_miss_than_before_and_once_more_when_there_is_room() {
        let mut window = FillWindow::new(1 << 20);
        miss(&mut window, 0, 1_024, true, 256);
        assert!(miss(&mut window, 1_024, 512, false, 256));
        assert_eq!(window.bytes(), 1 << 20);
        (0..100_000).for_each(|_| window.on_useless(Sequence::new(6), 0));
        assert_eq!(window.bytes(), 4096);
        window.on_room(Sequence::new(6));
        assert!(!miss(&mut window, 1_536, 128, false, 256));
        assert_eq!(window.bytes(), 1 << 20);
        (0..100_000).for_each(|_| window.on_useless(Sequence::new(7), 0));
        window.on_room(Sequence::new(8));
        assert!(!miss(&mut window, 1_664, 128, false, 256));
        assert_eq!(window.bytes(), 4096, "once");
    }
}
