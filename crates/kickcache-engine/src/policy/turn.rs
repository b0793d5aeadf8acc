//! Rules of reclaim that the cache and its miniatures share, and the value of an overwrite.

use crate::policy::ghost::COUNT_MAX;
use crate::queue::Queue;

/// The least hits with which reclaim can move a block of probation to main.
pub(crate) const PROMOTION_HITS: u8 = 2;
/// The most segments of a queue that one search looks at.
pub(crate) const SEARCH_MAX: usize = 16;
/// The number of a frozen main's oldest segments from which a search takes the coldest.
pub(crate) const HOLD_SEARCH_MAX: usize = 4;
/// The most that is copied from a segment in its turn because of hits, in percent, while copies are many, and in
/// miniatures; [`carries_all`] is the exception.
pub(crate) const CARRIED_PERCENT: u32 = 50;
/// The share of hot blocks, in percent, above which a segment of main counts as hot.
const KEEP_PERCENT: u64 = 60;
/// A frozen main is walked once per this many capacities of requests.
pub(crate) const HOLD_ROUND: u64 = 5;
/// Counts of misses decrease by one per this many capacities of requests.
pub(crate) const HOLD_TURN: u64 = 3;
/// The count of a block that missed often.
pub(crate) const HOLD_OFTEN: u8 = COUNT_MAX;
/// A segment of a frozen main is worth emptying if at least this share of its blocks is cold, in percent.
const HOLD_COLD_PERCENT: u64 = 7;
/// Segments of room that are made ahead of admissions while main is frozen.
pub(crate) const HOLD_AHEAD: u64 = 1;

/// Whether a segment of main stays in place, `hot` of its `blocks` blocks with hits.
pub(crate) fn stays_in_place(hot: u64, blocks: u64) -> bool {
    hot * 100 > blocks * tuned!(Keep, KEEP_PERCENT)
}

/// Whether all blocks with hits in a segment of a frozen main are copied.
pub(crate) fn carries_all(hot: u64, blocks: u64) -> bool {
    hot * 100 <= blocks * (100 - tuned!(HoldCold, HOLD_COLD_PERCENT))
}

pub(crate) fn is_worth_emptying(cold: u64, blocks: u64) -> bool {
    cold > 0 && cold * 100 >= blocks * tuned!(HoldCold, HOLD_COLD_PERCENT)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockRank {
    pub(crate) queue: Queue,
    pub(crate) hits: u8,
}

/// The new position of an overwritten block.
pub(crate) fn written_over(block: BlockRank) -> BlockRank {
    match block.queue {
        Queue::Probation if block.hits + 1 < tuned!(PromotionHits, PROMOTION_HITS) => {
            BlockRank { hits: block.hits + 1, ..block }
        }
        Queue::Probation => BlockRank { queue: Queue::Main, hits: 0 },
        Queue::Main => BlockRank { hits: block.hits.max(1), ..block },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_overwrite_of_a_block_moves_it_to_main() {
        let standing = |queue, hits| BlockRank { queue, hits };
        assert_eq!(written_over(standing(Queue::Probation, 0)), standing(Queue::Probation, 1));
        assert_eq!(written_over(standing(Queue::Probation, 1)), standing(Queue::Main, 0));
        assert_eq!(written_over(standing(Queue::Main, 0)), standing(Queue::Main, 1));
        assert_eq!(written_over(standing(Queue::Main, 3)), standing(Queue::Main, 3));
    }

    #[test]
    fn all_hot_blocks_stay_if_the_cold_ones_justify_it() {
        assert!(!is_worth_emptying(0, 0) && !is_worth_emptying(0, 100));
        for cold in 1..=100 {
            assert!(!is_worth_emptying(cold, 100) || carries_all(100 - cold, 100), "{cold}");
        }
    }
}
