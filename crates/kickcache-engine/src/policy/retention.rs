//! Which blocks stay and which are dropped: S3-FIFO over segments, with a probation queue of adaptive size.
//!
//! Sources: S3-FIFO (Yang et al., SOSP 2023) for the two queues and the ghost; the adaptation by two small ghosts,
//! segments kept in place and dead-first cleaning are design R of the project's policy study (`ARCHITECTURE.md`).

use crate::policy::ghost::Content;
use crate::policy::ghost_lists::{GhostEntry, GhostLists};
use crate::policy::hold::Hold;
use crate::policy::passage::Passage;
use crate::policy::returns::Returned;
use crate::policy::shift::RequestedBlocks;
use crate::policy::turn::{CARRIED_PERCENT, HOLD_OFTEN, PROMOTION_HITS, carries_all, stays_in_place};
use crate::queue::Queue;
use crate::step::Step;
use crate::units::BlockKey;

/// While copies are many, a segment with at most this share of live blocks may be cleaned ahead of its turn, in
/// percent.
const DEAD_FIRST_PERCENT: u32 = 50;
/// As [`DEAD_FIRST_PERCENT`], while copies are few.
const DEAD_FIRST_PERCENT_MAX: u32 = 70;
/// Copies are few below this share of the admitted blocks, in percent.
const COPIES_PERCENT: u64 = 90;
/// The most that is copied from a segment in its turn because of hits, in percent, while copies are few;
/// [`carries_all`] is the exception.
const CARRIED_PERCENT_MAX: u32 = 75;
/// Admitted blocks after which earlier counts are halved: the capacity divided by this.
const COPIES_SHARE: u64 = 4;
/// A smaller share of hot blocks, in percent, makes a segment of main stale if the cache is used well.
const STALE_PERCENT: u32 = 10;
/// The cache is used well with at most this many misses per hit.
const MISSES_FOR_A_HIT: u64 = 2;
/// Requested blocks after which earlier counts are halved: the capacity divided by this.
const ASKED_SHARE: u64 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Judgement {
    Demote,
    /// Copy the block to the head of a queue, with these hits left.
    Reinsert(Queue, u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// The segment is treated as in its turn.
    Turn,
    /// Enough of the segment is dead.
    Dead,
    /// The segment's blocks are stale.
    Stale,
    /// Room is short or clients wait, and no other segment gives room.
    Room,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Give every hot block a hit less and move the segment to the head of the queue.
    Keep,
    Reclaim,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Work {
    pub(crate) copied: u64,
    pub(crate) admitted: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Copies {
    /// All work up to the last time that the past was halved.
    until: Work,
    /// The share of the work up to `until` that still counts.
    past: Work,
    are_many: bool,
}

impl Copies {
    fn observe(&mut self, all: Work, capacity: u64) {
        // The totals may shrink, because the counters of a removed volume are removed with it.
        let new = all.admitted.saturating_sub(self.until.admitted);
        let copied = self.past.copied + all.copied.saturating_sub(self.until.copied);
        let admitted = self.past.admitted + new;
        self.are_many = copied * 100 >= admitted * tuned!(Copies, COPIES_PERCENT) && copied > 0;
        if new > capacity / tuned!(CopiesShare, COPIES_SHARE) || all.admitted < self.until.admitted {
            self.past = Work { copied: copied / 2, admitted: admitted / 2 };
            self.until = all;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Use {
    until: RequestedBlocks,
    past: RequestedBlocks,
    is_good: bool,
}

impl Use {
    fn observe(&mut self, all: RequestedBlocks, capacity: u64) {
        let new = all.since(self.until);
        let RequestedBlocks { hits, misses } = self.past.plus(new);
        self.is_good = hits * tuned!(StaleMisses, MISSES_FOR_A_HIT) >= misses;
        if new.hits + new.misses > capacity / ASKED_SHARE || all.hits < self.until.hits {
            *self = Use { until: all, past: RequestedBlocks { hits: hits / 2, misses: misses / 2 }, ..*self };
        }
    }
}

#[derive(Debug)]
pub(crate) struct Retention {
    capacity: u64,
    copies: Copies,
    used: Use,
    departed: GhostLists,
    pub(crate) hold: Hold,
    pub(crate) passage: Passage,
}

impl Retention {
    pub(crate) fn new(capacity: u64) -> Retention {
        Retention {
            capacity,
            copies: Copies::default(),
            used: Use::default(),
            departed: GhostLists::new(capacity),
            hold: Hold::new(capacity),
            passage: Passage::new(capacity),
        }
    }

    pub(crate) fn begin_growth(&mut self, capacity: u64) -> Option<()> {
        self.departed.begin_growth(capacity)
    }

    pub(crate) fn grow(&mut self) -> Step {
        self.departed.grow()
    }

    /// The state of main and the value of streams are determined again.
    pub(crate) fn use_grown(&mut self, capacity: u64) {
        self.departed.use_grown(capacity);
        self.hold = Hold::new(capacity);
        self.passage = Passage::new(capacity);
        self.capacity = capacity;
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.departed.memory_bytes() + self.hold.memory_bytes() + self.passage.memory_bytes()
    }

    pub(crate) const fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(crate) fn target(&self) -> u64 {
        self.departed.target()
    }

    pub(crate) fn place(&mut self, key: BlockKey) -> Option<GhostEntry> {
        self.note_content();
        self.departed.place(key.hash())
    }

    pub(crate) fn returned_share(&self) -> u64 {
        self.departed.returned_share()
    }

    pub(crate) fn remember(&mut self, key: BlockKey) {
        self.departed.remember(key.hash());
    }

    /// Ghost memory counts misses while main is frozen.
    fn note_content(&mut self) {
        self.departed.change(if self.hold.is_on() { Content::PrintsAndCounts } else { Content::Prints });
    }

    /// A block missed while main is frozen. Returns whether it missed often recently.
    pub(crate) fn comes_often(&mut self, key: BlockKey) -> bool {
        self.note_content();
        self.departed.pass(self.hold.take_turns());
        self.departed.count(key.hash()) >= HOLD_OFTEN
    }

    /// The first of `blocks` blocks missed while main is frozen, with this many hits before. If this shows that the
    /// freeze is useless, the first blocks of the last misses are remembered.
    pub(crate) fn on_held_miss(&mut self, key: BlockKey, blocks: u32, hits: u64) -> Returned {
        let returned = self.hold.on_held_miss(key, blocks, hits);
        if matches!(returned, Returned::InVain { .. }) {
            self.hold.returns.take_missed().for_each(|key| self.departed.remember(key.hash()));
        }
        returned
    }

    pub(crate) fn on_left(&mut self, key: BlockKey, queue: Queue) {
        self.departed.on_left(key.hash(), queue);
    }

    /// Whether main's oldest segment is stale; `hot` of its `live` blocks have hits.
    pub(crate) fn is_stale(&self, hot: u32, live: u32) -> bool {
        self.used.is_good && hot * 100 < live * tuned!(Stale, STALE_PERCENT)
    }

    pub(crate) fn choose_queue(&self, probation_blocks: u64, main_segments: u32) -> Queue {
        let target = if self.hold.is_on() { self.capacity / 100 } else { self.target() };
        if probation_blocks > target || main_segments == 0 { Queue::Probation } else { Queue::Main }
    }

    pub(crate) fn judge(&self, reason: Reason, queue: Queue, hits: u8) -> Judgement {
        match (reason, queue) {
            (Reason::Turn, _) if self.hold.is_on() && hits > 0 => Judgement::Reinsert(Queue::Main, hits / 2),
            (Reason::Turn | Reason::Dead, Queue::Probation)
                if hits >= tuned!(PromotionHits, PROMOTION_HITS) =>
            {
                Judgement::Reinsert(Queue::Main, 0)
            }
            (Reason::Turn, Queue::Main) if hits > 0 => Judgement::Reinsert(Queue::Main, hits - 1),
            (Reason::Dead, _) => Judgement::Reinsert(queue, hits),
            (Reason::Turn | Reason::Stale | Reason::Room, _) => Judgement::Demote,
        }
    }

    /// Whether a segment of main stays in place; `hot` of its `blocks` live blocks have hits.
    pub(crate) fn verdict(&self, queue: Queue, hot: u32, blocks: u32) -> Verdict {
        if queue == Queue::Main && stays_in_place(hot.into(), blocks.into()) {
            Verdict::Keep
        } else {
            Verdict::Reclaim
        }
    }

    pub(crate) fn observe(&mut self, work: Work, asked: RequestedBlocks) {
        self.copies.observe(work, self.capacity);
        self.used.observe(asked, self.capacity);
    }

    /// The most blocks that are copied from a segment of `blocks` blocks, `hot` with hits. Blocks that must stay are
    /// copied beyond this number.
    pub(crate) fn carried_max(&self, reason: Reason, hot: u32, blocks: u32) -> u32 {
        if self.hold.is_on() && carries_all(hot.into(), blocks.into()) {
            return blocks;
        }
        let percent = match reason {
            Reason::Dead => 100,
            Reason::Turn | Reason::Stale | Reason::Room if self.copies.are_many => {
                tuned!(Carried, CARRIED_PERCENT)
            }
            Reason::Turn | Reason::Stale | Reason::Room => tuned!(CarriedFew, CARRIED_PERCENT_MAX),
        };
        blocks * percent / 100
    }

    /// Whether few enough of the `blocks` blocks of a segment are live.
    pub(crate) fn is_mostly_dead(&self, live: u32, blocks: u32) -> bool {
        let percent = if self.copies.are_many {
            tuned!(DeadFirst, DEAD_FIRST_PERCENT)
        } else {
            tuned!(DeadFirstFew, DEAD_FIRST_PERCENT_MAX)
        };
        live * 100 <= blocks * percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_dead_blocks_are_cleaned_while_copies_are_few() {
        let mut retention = Retention::new(1_000);
        assert!(retention.is_mostly_dead(70, 100) && !retention.is_mostly_dead(71, 100));
        assert_eq!(retention.carried_max(Reason::Turn, 100, 100), 75);
        retention.observe(Work { copied: 95, admitted: 100 }, RequestedBlocks::default());
        assert!(retention.is_mostly_dead(50, 100) && !retention.is_mostly_dead(51, 100));
        assert_eq!(retention.carried_max(Reason::Turn, 100, 100), 50);
        assert_eq!(retention.carried_max(Reason::Dead, 100, 100), 100);
        retention.observe(Work { copied: 95, admitted: 120 }, RequestedBlocks::default());
        assert!(retention.is_mostly_dead(70, 100), "copies are few again");
    }

    #[test]
    fn stale_data_is_dropped_first_only_while_hits_are_frequent() {
        let mut retention = Retention::new(1_000);
        let asked = |hits, misses| RequestedBlocks { hits, misses };
        retention.observe(Work::default(), asked(100, 200));
        assert!(retention.is_stale(9, 100) && !retention.is_stale(10, 100));
        retention.observe(Work::default(), asked(100, 800));
        assert!(!retention.is_stale(0, 100), "a scan is no proof");
        retention.observe(Work::default(), asked(1_500, 800));
        assert!(retention.is_stale(0, 100), "and is forgotten");
    }

    #[test]
    fn live_blocks_of_a_dead_segment_stay_in_their_queue() {
        let retention = Retention::new(1_000);
        let judge = |reason, queue, hits| retention.judge(reason, queue, hits);
        assert_eq!(judge(Reason::Dead, Queue::Probation, 1), Judgement::Reinsert(Queue::Probation, 1));
        assert_eq!(judge(Reason::Dead, Queue::Main, 0), Judgement::Reinsert(Queue::Main, 0));
        assert_eq!(judge(Reason::Turn, Queue::Probation, 2), Judgement::Reinsert(Queue::Main, 0));
        assert_eq!(judge(Reason::Turn, Queue::Main, 2), Judgement::Reinsert(Queue::Main, 1));
        assert_eq!(judge(Reason::Turn, Queue::Probation, 1), Judgement::Demote);
        assert_eq!(judge(Reason::Stale, Queue::Main, 3), Judgement::Demote);
    }
}
