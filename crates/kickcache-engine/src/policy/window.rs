//! The fill window of a volume: the size of the aligned extent that a short miss reads, between one block and 1 MiB.
//!
//! * A review sets it to one block if first requests lie too far apart ([`Spread`]).
//! * Otherwise misses near cached blocks can widen it, and read-ahead that is dropped or overwritten without a hit can
//!   narrow it.

use crate::config::FILL_WINDOW_MIN;
use crate::policy::spread::{Distance, Scale, Spread};
use crate::time::Instant;
use crate::units::{BLOCK_SIZE, BlockIndex, ByteExtent, Sequence};

/// Misses after which the window is reviewed; also the least number of ended read-ahead blocks after which it may
/// narrow.
const VOTES: u32 = 128;
/// Misses between two checks whether a window may open.
const EARLY: u32 = 8;
/// Requests of at least this many bytes are not recorded in [`Spread`].
const WHOLE: u64 = 512 << 10;
/// The window may narrow after the capacity divided by this in ended read-ahead blocks, and after [`VOTES`] at least.
const PATIENCE_SHARE: u64 = 32;
/// Misses after which an opening window doubles.
const OPENING_MISSES: u32 = 4;
/// A volume misses suddenly if its share of misses exceeds this multiple of the usual share by more than this, in
/// 1/1024.
const SUDDEN_FACTOR: u64 = 2;
const SUDDEN_LEAST: u64 = 51;
/// The misses of a volume are usually of known blocks if more than this share of them is, in 1/1024; they are suddenly
/// of other blocks if fewer than one in [`OTHERS_PART`] is of a known one.
const KNOWN_LEAST: u64 = 512;
const OTHERS_PART: u32 = 8;
const START: u64 = 64 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MissFacts {
    /// A block of the miss is in ghost memory, or a client requested its promotion.
    pub(crate) is_known: bool,
    /// A block in the other half of a window twice as wide is cached.
    pub(crate) is_near: bool,
    /// A block further away is cached.
    pub(crate) is_crowded: bool,
    pub(crate) extent: ByteExtent,
    /// Blocks that reads of the volume have hit so far.
    pub(crate) hits: u64,
    pub(crate) scale: Scale,
    pub(crate) now: Instant,
    pub(crate) newest: Sequence,
}

/// Whether a missed block was requested before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Recall {
    Known,
    /// The block was not requested before, as far as is known.
    First,
}

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
    hits: u64,
    /// The usual share of misses among the requested blocks of the volume, in 1/1024, and the usual share of known
    /// blocks among the misses.
    usual: u64,
    usual_known: u64,
    spread: Spread,
    /// Blocks that were requested for the first time since the last look.
    first: usize,
    opening: bool,
    /// The window is to open when first requests lie near enough.
    wants_to_open: bool,
    /// The window is new, or was narrowed because first requests lay too far apart, and has not opened since.
    is_closed: bool,
    /// Since the window last opened, useless read-ahead narrowed it.
    is_barred: bool,
    /// The window may open once more when stale blocks begin to be dropped.
    wants_room: bool,
    /// The newest sequence numbers at the last two reviews, the newest first.
    looked: [Sequence; 2],
    /// Blocks of segments whose newest batch has a lower sequence number do not count as useless.
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
            first: 0,
            opening: false,
            wants_to_open: false,
            is_closed: true,
            is_barred: false,
            wants_room: false,
            looked: [Sequence::new(0); 2],
            opened: Sequence::new(0),
        }
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn set_max(&mut self, max: u64) {
        self.max = max;
        self.bytes = self.bytes.min(max);
    }

    pub(crate) fn on_useful(&mut self, block: BlockIndex) {
        self.useful += 1;
        self.on_first(block);
    }

    fn on_first(&mut self, block: BlockIndex) {
        self.spread.on_first(block);
        self.first += 1;
    }

    /// A read-ahead block was dropped or overwritten without a hit; `written` is the newest batch of its segment, and
    /// the cache has room for `capacity` blocks.
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
            (self.opening, self.is_barred) = (false, true);
        }
        self.useful /= 2;
        self.useless /= 2;
    }

    /// If the working set of the volume suddenly changed, returns a sequence number from before the change.
    pub(crate) fn on_miss(&mut self, missed: MissFacts) -> Option<Sequence> {
        self.misses += 1;
        self.known += u32::from(missed.is_known);
        self.near += u32::from(missed.is_near && !missed.is_known);
        self.crowded += u32::from(missed.is_crowded);
        let recall = if missed.is_known { Recall::Known } else { Recall::First };
        self.observe(missed.extent, recall, missed.now);
        if self.opening && self.misses.is_multiple_of(OPENING_MISSES) && self.bytes < self.max {
            self.bytes *= 2;
        }
        if self.misses == VOTES {
            return self.look(missed);
        }
        let may_open = self.wants_to_open || self.is_closed && self.spread.distance() == Distance::Unknown;
        if may_open && self.misses.is_multiple_of(EARLY) {
            self.spread.judge(missed.scale);
            if self.wants_to_open && self.spread.is_proven() {
                self.open(missed.newest);
            } else if self.may_open_again() {
                self.open_again();
            }
        }
        None
    }

    /// Records a miss, filled or not, of less than [`WHOLE`] bytes.
    pub(crate) fn observe(&mut self, extent: ByteExtent, recall: Recall, now: Instant) {
        if extent.length >= WHOLE {
            return;
        }
        self.spread.on_miss(now, extent.length.div_ceil(BLOCK_SIZE));
        if recall == Recall::First {
            self.on_first(BlockIndex::containing(extent.start));
        }
    }

    /// The working set of the volume has changed; its last `first` first requests belong to the new one.
    pub(crate) fn on_others(&mut self, first: usize) {
        self.spread.forget_all_but(first);
        (self.wants_to_open, self.wants_room, self.usual_known) = (true, true, 0);
    }

    /// Stale blocks begin to be dropped; `newest` is the newest sequence number.
    pub(crate) fn on_room(&mut self, newest: Sequence) {
        let is_wanted = core::mem::take(&mut self.wants_room);
        if is_wanted && self.bytes < self.max && self.spread.distance() == Distance::Near {
            self.open(newest);
        }
    }

    /// Opens the window; drops of earlier read-ahead do not count from here on.
    fn open(&mut self, newest: Sequence) {
        (self.opening, self.wants_to_open) = (true, false);
        (self.is_closed, self.is_barred) = (false, false);
        self.opened = newest;
        (self.useful, self.useless) = (0, 0);
    }

    /// Opens the window; drops of earlier read-ahead continue to count.
    fn open_again(&mut self) {
        (self.opening, self.is_closed) = (true, false);
    }

    fn may_open_again(&self) -> bool {
        self.is_closed && !self.is_barred && self.spread.is_proven()
    }

    fn look(&mut self, missed: MissFacts) -> Option<Sequence> {
        let [last, before] = self.looked;
        let is_change = self.asks_for_others(missed.hits);
        if is_change {
            self.on_others(self.first);
        }
        match self.spread.judge(missed.scale) {
            Distance::Near if self.wants_to_open => self.open(missed.newest),
            Distance::Near if self.may_open_again() => self.open_again(),
            Distance::Far => {
                self.bytes = FILL_WINDOW_MIN;
                (self.opening, self.wants_to_open, self.is_closed) = (false, false, true);
            }
            Distance::Near | Distance::Unknown => {
                if self.near * 2 > VOTES + self.crowded && self.bytes < self.max {
                    self.bytes *= 2;
                }
            }
        }
        self.usual_known = (3 * self.usual_known + u64::from(self.known * 1024 / VOTES)) / 4;
        (self.misses, self.near, self.crowded, self.known, self.first) = (0, 0, 0, 0, 0);
        self.looked = [missed.newest, last];
        is_change.then_some(before)
    }

    /// Whether the working set of the volume suddenly changed; `hits` is the number of hits in all.
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

    fn missed() -> MissFacts {
        MissFacts {
            is_known: true,
            is_near: false,
            is_crowded: false,
            extent: ByteExtent { start: 0, length: BLOCK_SIZE },
            hits: 0,
            scale: Scale { capacity: 1 << 16, size: 1 << 40 },
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
        let by_chance = |number: u32| MissFacts {
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
            window.on_miss(MissFacts { is_near: true, is_known: false, ..missed() });
        });
        assert_eq!(window.bytes(), 1 << 20);
    }

    #[test]
    fn does_not_widen_for_blocks_that_were_here_and_left() {
        let mut window = narrowed();
        (0..10_000).for_each(|_| {
            window.on_miss(MissFacts { is_near: true, ..missed() });
        });
        assert_eq!(window.bytes(), 4096);
    }

    #[test]
    fn opens_at_once_when_unknown_blocks_suddenly_miss() {
        let mut window = narrowed();
        let mut hits = 0;
        for _ in 0..10_000 {
            hits += 100;
            window.on_miss(MissFacts { hits, ..missed() });
        }
        (0..400).for_each(|_| {
            window.on_miss(MissFacts { is_known: false, hits, ..missed() });
        });
        assert_eq!(window.bytes(), 1 << 20);
        (0..1_000).for_each(|_| window.on_useless(Sequence::new(4), 0));
        assert_eq!(window.bytes(), 1 << 20, "blocks written earlier are not counted");
        (0..10_000).for_each(|_| window.on_useless(Sequence::new(6), 0));
        assert_eq!(window.bytes(), 4096);
    }

    /// Misses of a volume behind a disk of 300 requests a second, spread over `extents`.
    fn miss(window: &mut FillWindow, from: u64, count: u64, is_known: bool, extents: u64) -> bool {
        let mut is_change = false;
        for number in from..from + count {
            let now = Instant::from_nanos(number * 3_333_333);
            let place = (number.wrapping_mul(0xD134_2543_DE82_EF95) >> 20) % extents;
            let extent = ByteExtent { start: place << 20, length: BLOCK_SIZE };
            let is_change_now = window.on_miss(MissFacts { is_known, extent, now, ..missed() }).is_some();
            is_change |= is_change_now;
        }
        is_change
    }

    #[test]
    fn is_a_block_for_distant_first_requests() {
        let mut window = FillWindow::new(1 << 20);
        miss(&mut window, 0, 300, false, 3_072);
        assert_eq!(window.bytes(), 4096);
        let mut window = FillWindow::new(1 << 20);
        miss(&mut window, 0, 300, false, 256);
        assert_eq!(window.bytes(), 1 << 20);
    }

    #[test]
    fn is_not_closed_by_large_or_fast_requests() {
        let mut window = FillWindow::new(1 << 20);
        for number in 0..300 {
            let extent = ByteExtent { start: (1 << 40) + (number << 20), length: 1 << 20 };
            let now = Instant::from_nanos(number * 1_000_000);
            window.on_miss(MissFacts { is_known: false, extent, now, ..missed() });
        }
        assert!(window.bytes() > 4096);
        for number in 300..556 {
            miss(&mut window, number, 1, false, 256);
            assert!(window.bytes() > 4096, "{number}");
        }
        assert_eq!(window.bytes(), 1 << 20);
    }

    #[test]
    fn is_not_reopened_by_near_misses_after_useless_read_ahead() {
        let mut window = FillWindow::new(1 << 20);
        miss(&mut window, 0, 300, false, 256);
        assert_eq!(window.bytes(), 1 << 20);
        (0..10_000).for_each(|_| window.on_useless(Sequence::new(6), 0));
        miss(&mut window, 300, 1_024, false, 3_072);
        assert!(window.is_closed);
        miss(&mut window, 1_324, 2_048, false, 256);
        assert_eq!(window.bytes(), 4096);
    }

    #[test]
    fn opens_when_other_blocks_miss_and_again_with_room() {
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
