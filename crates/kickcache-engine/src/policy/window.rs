//! How much a miss reads: the fill window of a volume, between one block and 1 MiB.
//!
//! * It opens at once when a volume suddenly misses more than it used to, and misses what the cache never knew: what
//!   is cached is stale, and has to leave anyway.
//! * Else widening looks at the misses themselves: if the other half of the next larger window is cached already,
//!   that window would have brought this block in, unless it was here and had to leave.
//! * Narrowing looks at prefetched blocks that left without a hit; those from before the window opened do not count.

use crate::config::FILL_WINDOW_MIN;
use crate::units::Sequence;

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
    /// Blocks that reads of the volume found so far.
    pub(crate) hits: u64,
    /// The newest sequence number.
    pub(crate) newest: Sequence,
}

/// The window of one volume, in bytes, a power of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// How often the volume misses, in 1/1024.
    usual: u64,
    opening: bool,
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
            opening: false,
            looked: [Sequence::new(0); 2],
            opened: Sequence::new(0),
        }
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Another upper bound; what was learned stays as far as it fits.
    pub(crate) fn set_max(&mut self, max: u64) {
        self.max = max;
        self.bytes = self.bytes.min(max);
    }

    /// A prefetched block was hit.
    pub(crate) fn on_useful(&mut self) {
        self.useful += 1;
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
        if self.opening && self.misses.is_multiple_of(OPENING_MISSES) && self.bytes < self.max {
            self.bytes *= 2;
        }
        if self.misses == VOTES { self.look(missed) } else { None }
    }

    fn look(&mut self, missed: Missed) -> Option<Sequence> {
        let hits = missed.hits - self.hits;
        let share = u64::from(VOTES) * 1024 / (u64::from(VOTES) + hits);
        let is_sudden = share > SUDDEN_FACTOR * self.usual + SUDDEN_LEAST;
        let opens = is_sudden && self.known * 2 < VOTES;
        if opens {
            self.opening = true;
            self.opened = missed.newest;
            (self.useful, self.useless) = (0, 0);
        } else if self.near * 2 > VOTES + self.crowded && self.bytes < self.max {
            self.bytes *= 2;
        }
        self.usual =
            if share < self.usual { (7 * self.usual + share) / 8 } else { (self.usual + share).div_ceil(2) };
        self.hits = missed.hits;
        (self.misses, self.near, self.crowded, self.known) = (0, 0, 0, 0);
        let [last, before] = self.looked;
        self.looked = [missed.newest, last];
        opens.then_some(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed() -> Missed {
        Missed { is_known: true, is_near: false, is_crowded: false, hits: 0, newest: Sequence::new(5) }
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
}
