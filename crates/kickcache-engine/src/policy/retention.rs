//! What stays and what goes: S3-FIFO over segments, with a probation queue whose share adapts.
//!
//! Sources: S3-FIFO (Yang et al., SOSP 2023) for the two queues and the ghost; the adaptation by two small ghosts,
//! segments kept in place and dead-first cleaning are design R of the project's policy study (`ARCHITECTURE.md`).

use crate::policy::ghost::Ghost;
use crate::queue::Queue;
use crate::units::BlockKey;

/// Hits after which a block of probation moves to main.
const PROMOTION_HITS: u8 = 2;
/// A segment of main with more than this share of hot blocks stays in place, in percent.
const KEEP_PERCENT: u32 = 60;
/// A segment with at most this share of live blocks is cleaned first, in percent.
const DEAD_FIRST_PERCENT: u32 = 50;
/// The same while copies are few: space that dead copies take is missing for others.
const DEAD_FIRST_PERCENT_MAX: u32 = 70;
/// Copies are few below this share of the blocks that came in, in percent: less than two blocks are written for each.
const COPIES_PERCENT: u64 = 90;
/// A segment of main with fewer hot blocks than this, older than all of probation, goes first, in percent.
const STALE_PERCENT: u32 = 10;
/// Segments of a queue that one search looks at.
pub(crate) const SEARCH_MAX: usize = 16;
/// Blocks by which one ghost hit moves probation's target.
const STEP: u64 = 2;

/// What to do with a live block of a segment that is reclaimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Judgement {
    /// Forget it.
    Demote,
    /// Copy it to the head of main, with these hits left.
    Reinsert(u8),
}

/// Whether reclaim may copy more than it must.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Copies {
    Few,
    Many,
}

/// Where a block that is not cached begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) queue: Queue,
    /// Ghost memory remembers it.
    pub(crate) is_known: bool,
}

/// What to do with a segment whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Give every hot block a hit less and let it stand as the newest.
    Keep,
    /// Empty it.
    Reclaim,
}

/// The policy's memory.
#[derive(Debug)]
pub(crate) struct Retention {
    capacity: u64,
    /// Blocks that probation shall hold.
    target: u64,
    /// Left probation a while ago.
    left_probation: Ghost,
    /// Left probation just now.
    left_probation_recently: Ghost,
    /// Left main just now.
    left_main_recently: Ghost,
}

impl Retention {
    pub(crate) fn new(capacity: u64) -> Retention {
        Retention {
            capacity,
            target: capacity / 10,
            left_probation: Ghost::new(capacity * 8 / 10),
            left_probation_recently: Ghost::new(capacity / 10),
            left_main_recently: Ghost::new(capacity / 10),
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.left_probation.memory_bytes()
            + self.left_probation_recently.memory_bytes()
            + self.left_main_recently.memory_bytes()
    }

    /// Blocks of the cache.
    pub(crate) const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Blocks that probation shall hold.
    pub(crate) fn target(&self) -> u64 {
        self.target
    }

    /// A block that is not cached was asked for: in which queue would it start, and is it known? What left main had
    /// its time there, and begins again in probation.
    pub(crate) fn place(&mut self, key: BlockKey) -> Place {
        if self.left_probation_recently.take(key) {
            self.target = (self.target + STEP).min(self.capacity * 95 / 100);
            return Place { queue: Queue::Main, is_known: true };
        }
        if self.left_main_recently.take(key) {
            self.target = self.target.saturating_sub(STEP).max(self.capacity / 100).max(1);
            return Place { queue: Queue::Probation, is_known: true };
        }
        let is_known = self.left_probation.take(key);
        Place { queue: if is_known { Queue::Main } else { Queue::Probation }, is_known }
    }

    /// A client writes over a cached block of a queue that had so many hits: where the new copy goes, and the hits that
    /// it begins with. One write more is a hit more.
    pub(crate) fn place_again(&self, queue: Queue, hits: u8) -> (Queue, u8) {
        let hits = hits.saturating_add(1);
        match queue {
            Queue::Probation if hits >= PROMOTION_HITS => (Queue::Main, 0),
            Queue::Probation | Queue::Main => (queue, hits),
        }
    }

    /// An unknown block was asked for and turned away; its next turn will be its second.
    pub(crate) fn remember(&mut self, key: BlockKey) {
        self.left_probation.insert(key);
    }

    /// A clean block was forgotten.
    pub(crate) fn on_left(&mut self, key: BlockKey, queue: Queue) {
        match queue {
            Queue::Probation => {
                self.left_probation_recently.insert(key);
                self.left_probation.insert(key);
            }
            Queue::Main => self.left_main_recently.insert(key),
        }
    }

    /// Whether main's oldest segment, older than all of probation, has had its time without being used: junk leaves
    /// first. `hot` of its `live` blocks have hits.
    pub(crate) fn is_stale(&self, hot: u32, live: u32) -> bool {
        hot * 100 < live * STALE_PERCENT
    }

    /// From which queue the next segment goes.
    pub(crate) fn choose_queue(&self, probation_blocks: u64, main_segments: u32) -> Queue {
        if probation_blocks > self.target || main_segments == 0 { Queue::Probation } else { Queue::Main }
    }

    /// What happens to a block whose segment is reclaimed.
    pub(crate) fn judge(&self, queue: Queue, hits: u8) -> Judgement {
        match queue {
            Queue::Probation if hits >= PROMOTION_HITS => Judgement::Reinsert(0),
            Queue::Main if hits > 0 => Judgement::Reinsert(hits - 1),
            Queue::Probation | Queue::Main => Judgement::Demote,
        }
    }

    /// Whether a segment of main stays in place; `hot` of its `blocks` live blocks have hits.
    pub(crate) fn verdict(&self, queue: Queue, hot: u32, blocks: u32) -> Verdict {
        if queue == Queue::Main && hot * 100 > blocks * KEEP_PERCENT {
            Verdict::Keep
        } else {
            Verdict::Reclaim
        }
    }

    /// Whether copies are few beside the blocks that came in.
    pub(crate) fn copies(&self, copied: u64, admitted: u64) -> Copies {
        if copied * 100 < admitted * COPIES_PERCENT { Copies::Few } else { Copies::Many }
    }

    /// Whether a sealed segment of `blocks` blocks, `live` of them live, is mostly dead copies and headers.
    pub(crate) fn is_mostly_dead(&self, live: u32, blocks: u32, copies: Copies) -> bool {
        let percent = match copies {
            Copies::Few => DEAD_FIRST_PERCENT_MAX,
            Copies::Many => DEAD_FIRST_PERCENT,
        };
        live * 100 <= blocks * percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{BlockIndex, VolumeId};

    #[test]
    fn target_follows_the_ghosts_within_bounds() {
        let mut retention = Retention::new(1_000);
        let key = BlockKey::new(VolumeId::new(0), BlockIndex::new(5));
        for _ in 0..1_000 {
            retention.on_left(key, Queue::Probation);
            assert_eq!(retention.place(key), Place { queue: Queue::Main, is_known: true });
        }
        assert_eq!(retention.target(), 950);
        for _ in 0..1_000 {
            retention.on_left(key, Queue::Main);
            assert_eq!(retention.place(key), Place { queue: Queue::Probation, is_known: true });
            retention.left_probation.take(key);
        }
        assert_eq!(retention.target(), 10);
        assert!(!retention.place(key).is_known);
    }

    #[test]
    fn a_block_that_is_written_again_and_again_moves_to_main() {
        let retention = Retention::new(1_000);
        assert_eq!(retention.place_again(Queue::Probation, 0), (Queue::Probation, 1));
        assert_eq!(retention.place_again(Queue::Probation, 1), (Queue::Main, 0));
        assert_eq!(retention.place_again(Queue::Main, 2), (Queue::Main, 3));
    }

    #[test]
    fn segments_with_fewer_dead_blocks_are_cleaned_while_copies_are_few() {
        let retention = Retention::new(1_000);
        assert!(retention.is_mostly_dead(65, 100, retention.copies(10, 100)));
        assert!(!retention.is_mostly_dead(65, 100, retention.copies(95, 100)));
        assert!(retention.is_mostly_dead(50, 100, Copies::Many));
    }
}
