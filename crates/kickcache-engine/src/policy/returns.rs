//! Excluded blocks that are requested again at once while main is frozen.

use alloc::collections::VecDeque;

use crate::units::BlockKey;

/// Misses that are remembered: the cache's capacity in blocks divided by [`MISSES_SHARE`], at least [`MISSES_MIN`] and
/// at most this many.
const MISSES: u64 = 256;
const MISSES_SHARE: u64 = 128;
const MISSES_MIN: u64 = 32;
/// Returns that are judged together.
const RETURNS: usize = 32;
/// The freeze is useless if the last [`RETURNS`] returns are within this many misses, and hits are few.
const WITHIN: u32 = 512;
/// Hits are few if they are fewer than the returned blocks divided by this.
const BLOCKS_FOR_A_HIT: u32 = 4;

/// Whether a block that misses while main is frozen was requested recently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Returned {
    /// No recent request of the block.
    No,
    /// The block was requested recently.
    Yes,
    /// The last returns show that the freeze is useless; of the misses since the first of these returns, `first` were
    /// first requests.
    InVain { first: usize },
}

/// The counts up to a return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark {
    hits: u32,
    misses: u32,
    blocks: u32,
}

/// The first blocks of the last misses, and the counts at the last returns.
#[derive(Debug)]
pub(crate) struct Returns {
    missed: VecDeque<BlockKey>,
    marks: VecDeque<Mark>,
    misses: u32,
    /// Blocks that were requested again.
    blocks: u32,
}

impl Returns {
    pub(crate) fn new(capacity: u64) -> Returns {
        let misses = usize::try_from((capacity / MISSES_SHARE).clamp(MISSES_MIN, MISSES)).expect("few");
        Returns {
            missed: VecDeque::with_capacity(misses),
            marks: VecDeque::with_capacity(RETURNS),
            misses: 0,
            blocks: 0,
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.missed.capacity() * size_of::<BlockKey>() + self.marks.capacity() * size_of::<Mark>()) as u64
    }

    pub(crate) fn take_missed(&mut self) -> impl Iterator<Item = BlockKey> {
        self.missed.drain(..)
    }

    /// The first of some missed blocks, with this many hits of blocks before.
    pub(crate) fn on_miss(&mut self, key: BlockKey, blocks: u32, hits: u64) -> Returned {
        self.misses = self.misses.wrapping_add(1);
        if !self.missed.contains(&key) {
            if self.missed.len() == self.missed.capacity() {
                self.missed.pop_front();
            }
            self.missed.push_back(key);
            return Returned::No;
        }
        let oldest = if self.marks.len() == RETURNS { self.marks.pop_front() } else { None };
        let hits = u32::try_from(hits & u64::from(u32::MAX)).expect("32 bits");
        self.blocks = self.blocks.wrapping_add(blocks);
        self.marks.push_back(Mark { hits, misses: self.misses, blocks: self.blocks });
        let Some(oldest) = oldest else { return Returned::Yes };
        let misses = self.misses.wrapping_sub(oldest.misses);
        let returned = self.blocks.wrapping_sub(oldest.blocks);
        // The hits may shrink, because the hits of a removed volume are removed with it.
        let is_hit = hits.wrapping_sub(oldest.hits) >= returned / BLOCKS_FOR_A_HIT;
        if misses > WITHIN || is_hit {
            return Returned::Yes;
        }
        self.marks.clear();
        Returned::InVain { first: usize::try_from(misses).expect("few").saturating_sub(RETURNS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{BlockIndex, VolumeId};

    fn in_vain(returns: &mut Returns, blocks: impl Iterator<Item = u64>, misses_for_a_hit: u64) -> usize {
        let is_in_vain = |(number, block)| {
            let key = BlockKey::new(VolumeId::new(0), BlockIndex::new(block));
            matches!(returns.on_miss(key, 1, number / misses_for_a_hit), Returned::InVain { .. })
        };
        (0..).zip(blocks).map(is_in_vain).filter(|it| *it).count()
    }

    #[test]
    fn a_loop_does_not_return_in_time() {
        let mut returns = Returns::new(1 << 16);
        assert_eq!(in_vain(&mut returns, (0..100_000).map(|number| number % 300), 100_000), 0);
    }

    #[test]
    fn early_returns_are_excluded_only_if_it_gives_hits() {
        let blocks = || (0..300).map(|number| if number % 2 == 0 { number } else { number % 16 });
        assert_eq!(in_vain(&mut Returns::new(1 << 16), blocks(), 2), 0);
        let mut returns = Returns::new(1 << 16);
        assert_eq!(in_vain(&mut returns, blocks(), 300), 4);
        let memory = returns.memory_bytes();
        assert_eq!(returns.take_missed().count(), 158);
        in_vain(&mut returns, 0..10_000, 10_000);
        assert_eq!(returns.memory_bytes(), memory);
    }

    #[test]
    fn few_returns_among_many_misses_are_no_proof() {
        let blocks = (0..30_000).map(|number| if number % 20 == 0 { 1 << 30 } else { number });
        assert_eq!(in_vain(&mut Returns::new(1 << 16), blocks, 30_000), 0);
    }
}
