//! How much a miss reads: the fill window of a volume, between one block and 1 MiB.
//!
//! Widening looks at the misses themselves: if the other half of the next larger window is cached already, that
//! window would have brought this block in. Narrowing looks at prefetched blocks that left without a hit.

use crate::config::FILL_WINDOW_MIN;

/// Votes after which the window may change.
const VOTES: u32 = 128;
const START: u64 = 64 << 10;

/// The window of one volume, in bytes, a power of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FillWindow {
    bytes: u64,
    max: u64,
    useful: u32,
    useless: u32,
    near: u32,
    far: u32,
}

impl FillWindow {
    pub(crate) fn new(max: u64) -> FillWindow {
        let bytes = START.min(max);
        FillWindow { bytes, max, useful: 0, useless: 0, near: 0, far: 0 }
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A prefetched block was hit.
    pub(crate) fn on_useful(&mut self) {
        self.useful += 1;
    }

    /// A prefetched block left, or was overwritten, without a hit.
    pub(crate) fn on_useless(&mut self) {
        self.useless += 1;
        let resolved = self.useful + self.useless;
        if resolved < VOTES {
            return;
        }
        if self.useful * 4 < resolved && self.bytes > FILL_WINDOW_MIN {
            self.bytes /= 2;
        }
        self.useful /= 2;
        self.useless /= 2;
    }

    /// A block missed; `neighbour_cached` says that a window twice as wide would have brought it in before. With
    /// `cached_share` of the volume cached, in 1/1024, that happens by chance, which is no reason to widen.
    pub(crate) fn on_miss(&mut self, neighbour_cached: bool, cached_share: u64) {
        if neighbour_cached {
            self.near += 1;
        } else {
            self.far += 1;
        }
        if self.near + self.far < VOTES {
            return;
        }
        let by_chance = u64::from(VOTES) * cached_share / 1024;
        if u64::from(self.near) * 2 > u64::from(VOTES) + by_chance && self.bytes < self.max {
            self.bytes *= 2;
        }
        self.near = 0;
        self.far = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrows_to_a_block_when_neighbours_are_never_used() {
        let mut window = FillWindow::new(1 << 20);
        (0..10_000).for_each(|_| window.on_useless());
        assert_eq!(window.bytes(), 4096);
    }

    #[test]
    fn stays_as_it_is_when_neighbours_are_cached_by_chance() {
        let mut window = FillWindow::new(1 << 20);
        (0..10_000).for_each(|number| window.on_miss(number % 5 != 0, 819));
        assert_eq!(window.bytes(), START);
    }

    #[test]
    fn widens_to_the_maximum_when_neighbours_miss_next() {
        let mut window = FillWindow::new(1 << 20);
        (0..10_000).for_each(|_| window.on_useless());
        (0..10_000).for_each(|_| window.on_miss(true, 0));
        assert_eq!(window.bytes(), 1 << 20);
    }
}
