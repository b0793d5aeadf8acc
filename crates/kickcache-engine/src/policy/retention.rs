//! What stays and what goes: S3-FIFO over segments, with a probation queue whose share adapts.
//!
//! Sources: S3-FIFO (Yang et al., SOSP 2023) for the two queues and the ghost; the adaptation by two small ghosts,
//! segments kept in place and dead-first cleaning are design R of the project's policy study (`ARCHITECTURE.md`).

use crate::policy::ghost::Ghost;
use crate::policy::hold::Hold;
use crate::policy::miniature::HOLD_CARRIED_PERCENT;
use crate::policy::shift::Asked;
use crate::queue::Queue;
use crate::units::BlockKey;

/// Hits after which a block of probation moves to main.
const PROMOTION_HITS: u8 = 2;
/// A segment of main with more than this share of hot blocks stays in place, in percent.
const KEEP_PERCENT: u32 = 60;
/// A segment with at most this share of live blocks is cleaned first, in percent.
const DEAD_FIRST_PERCENT: u32 = 50;
/// The same while copies are few: the room that dead copies take is missing for others.
const DEAD_FIRST_PERCENT_MAX: u32 = 70;
/// Copies are few below this share of the blocks that came in, in percent: under two blocks are written for each.
const COPIES_PERCENT: u64 = 90;
/// Of a segment whose turn it is at most so much is copied, in percent: what is left over leaves, used or not.
const CARRIED_PERCENT: u32 = 50;
/// The same while copies are few.
const CARRIED_PERCENT_MAX: u32 = 75;
/// Blocks that come in until what was counted before counts half, as a part of the capacity.
const COPIES_SHARE: u64 = 4;
/// A segment of main with fewer hot blocks than this, older than all of probation, goes first, in percent.
const STALE_PERCENT: u32 = 10;
/// It does so only while there are at most this many misses for each hit: a scan makes all of main look unused.
const MISSES_FOR_A_HIT: u64 = 2;
/// Blocks asked for until what was asked before counts half, as a part of the capacity.
const ASKED_SHARE: u64 = 4;
/// Segments of a queue that one search looks at.
pub(crate) const SEARCH_MAX: usize = 16;
/// Blocks that left probation and are remembered, in tenths of the capacity.
const NOTED_TENTHS: usize = 8;
/// Blocks by which one ghost hit moves probation's target.
const STEP: u64 = 2;

/// What to do with a live block of a segment that is reclaimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Judgement {
    /// Forget it.
    Demote,
    /// Copy it to the head of a queue, with these hits left.
    Reinsert(Queue, u8),
}

/// What ghost memory knows of a block that is not cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    /// Where it starts.
    pub(crate) queue: Queue,
    /// When it was noted.
    pub(crate) noted: Noted,
}

/// When ghost memory noted a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Noted {
    /// So short a while ago that what came in then is still in probation.
    JustNow,
    /// Not long ago.
    Lately,
    /// It is nearly forgotten.
    LongAgo,
}

/// Why a segment is emptied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// Its turn has come: what was used enough is copied, up to a part of the segment.
    Turn,
    /// Much of it is dead: what lives is copied.
    Dead,
    /// What it holds is stale: nothing is copied that need not be.
    Stale,
    /// Clients wait, and nothing else gives them room: the same.
    Room,
}

/// What to do with a segment whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Give every hot block a hit less and let it stand as the newest.
    Keep,
    /// Empty it.
    Reclaim,
}

/// Blocks that reclaim copied, and blocks that came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Work {
    pub(crate) copied: u64,
    pub(crate) admitted: u64,
}

/// Recent work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Copies {
    /// All work up to the last time that the past was halved.
    until: Work,
    /// What counts of it.
    past: Work,
    are_many: bool,
}

impl Copies {
    /// So much was done in all.
    fn observe(&mut self, all: Work, capacity: u64) {
        // A volume that is taken away takes its counters along.
        let new = all.admitted.saturating_sub(self.until.admitted);
        let copied = self.past.copied + all.copied.saturating_sub(self.until.copied);
        let admitted = self.past.admitted + new;
        self.are_many = copied * 100 >= admitted * COPIES_PERCENT && copied > 0;
        if new > capacity / COPIES_SHARE || all.admitted < self.until.admitted {
            self.past = Work { copied: copied / 2, admitted: admitted / 2 };
            self.until = all;
        }
    }
}

/// What was requested recently.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Use {
    /// All that was asked for up to the last time that the past was halved.
    until: Asked,
    /// What counts of it.
    past: Asked,
    is_good: bool,
}

impl Use {
    /// So much was asked for in all.
    fn observe(&mut self, all: Asked, capacity: u64) {
        let new = all.since(self.until);
        let Asked { hits, misses } = self.past.plus(new);
        self.is_good = hits * MISSES_FOR_A_HIT >= misses;
        // A volume that is taken away takes its counters along.
        if new.hits + new.misses > capacity / ASKED_SHARE || all.hits < self.until.hits {
            *self = Use { until: all, past: Asked { hits: hits / 2, misses: misses / 2 }, ..*self };
        }
    }
}

/// The policy's memory.
#[derive(Debug)]
pub(crate) struct Retention {
    capacity: u64,
    /// Blocks that probation shall hold.
    target: u64,
    copies: Copies,
    used: Use,
    /// Left probation a while ago, or was turned away.
    left_probation: Ghost,
    /// Left probation just now.
    left_probation_recently: Ghost,
    /// Left main just now.
    left_main_recently: Ghost,
    /// Whether main stays as it is.
    pub(crate) hold: Hold,
}

impl Retention {
    pub(crate) fn new(capacity: u64) -> Retention {
        Retention {
            capacity,
            target: capacity / 10,
            copies: Copies::default(),
            used: Use::default(),
            left_probation: Ghost::new(capacity * NOTED_TENTHS as u64 / 10),
            left_probation_recently: Ghost::new(capacity / 10),
            left_main_recently: Ghost::new(capacity / 10),
            hold: Hold::new(capacity),
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.left_probation.memory_bytes()
            + self.left_probation_recently.memory_bytes()
            + self.left_main_recently.memory_bytes()
            + self.hold.memory_bytes()
    }

    /// Blocks of the cache.
    pub(crate) const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Blocks that probation shall hold.
    pub(crate) fn target(&self) -> u64 {
        self.target
    }

    /// A block that is not cached was asked for: in which queue does it start, if it is known? What left main had its
    /// time there, and begins again in probation.
    pub(crate) fn place(&mut self, key: BlockKey) -> Option<Known> {
        if self.left_probation_recently.take(key.hash()).is_some() {
            self.target = (self.target + STEP).min(self.capacity * 95 / 100);
            return Some(Known { queue: Queue::Main, noted: Noted::Lately });
        }
        if self.left_main_recently.take(key.hash()).is_some() {
            self.target = self.target.saturating_sub(STEP).max(self.capacity / 100).max(1);
            return Some(Known { queue: Queue::Probation, noted: Noted::Lately });
        }
        let noted = match self.left_probation.take(key.hash())? {
            age if age * NOTED_TENTHS < Ghost::AGE_MAX => Noted::JustNow,
            age if age * 2 < Ghost::AGE_MAX => Noted::Lately,
            _ => Noted::LongAgo,
        };
        Some(Known { queue: Queue::Main, noted })
    }

    /// An unknown block was asked for and turned away; its next turn will be its second.
    pub(crate) fn remember(&mut self, key: BlockKey) {
        self.left_probation.insert(key.hash());
    }

    /// A clean block was forgotten.
    pub(crate) fn on_left(&mut self, key: BlockKey, queue: Queue) {
        match queue {
            Queue::Probation => {
                self.left_probation_recently.insert(key.hash());
                self.left_probation.insert(key.hash());
            }
            Queue::Main => self.left_main_recently.insert(key.hash()),
        }
    }

    /// Whether main's oldest segment, older than all of probation, has had its time without being used, though the
    /// cache is used well: stale data leaves first. `hot` of its `live` blocks have hits.
    pub(crate) fn is_stale(&self, hot: u32, live: u32) -> bool {
        self.used.is_good && hot * 100 < live * STALE_PERCENT
    }

    /// From which queue the next segment goes.
    pub(crate) fn choose_queue(&self, probation_blocks: u64, main_segments: u32) -> Queue {
        let target = if self.hold.is_on() { self.capacity / 100 } else { self.target };
        if probation_blocks > target || main_segments == 0 { Queue::Probation } else { Queue::Main }
    }

    /// What happens to a block whose segment is emptied.
    pub(crate) fn judge(&self, reason: Reason, queue: Queue, hits: u8) -> Judgement {
        match (reason, queue) {
            (Reason::Turn | Reason::Dead, Queue::Probation) if hits >= PROMOTION_HITS => {
                Judgement::Reinsert(Queue::Main, 0)
            }
            (Reason::Turn, Queue::Main) if hits > 0 => Judgement::Reinsert(Queue::Main, hits - 1),
            (Reason::Dead, _) => Judgement::Reinsert(queue, hits),
            (Reason::Turn | Reason::Stale | Reason::Room, _) => Judgement::Demote,
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

    /// So much was copied, and came in, and so much was asked for, in all.
    pub(crate) fn observe(&mut self, work: Work, asked: Asked) {
        self.copies.observe(work, self.capacity);
        self.used.observe(asked, self.capacity);
    }

    /// Blocks that are copied at most of a segment of `blocks` blocks, of which `hot` have hits; those that are not clean are
    /// copied all the same.
    pub(crate) fn carried_max(&self, reason: Reason, hot: u32, blocks: u32) -> u32 {
        if self.hold.is_on() && u64::from(hot) * 100 <= u64::from(blocks) * HOLD_CARRIED_PERCENT {
            return blocks;
        }
        let percent = match reason {
            Reason::Dead => 100,
            Reason::Turn | Reason::Stale | Reason::Room if self.copies.are_many => CARRIED_PERCENT,
            Reason::Turn | Reason::Stale | Reason::Room => CARRIED_PERCENT_MAX,
        };
        blocks * percent / 100
    }

    /// Whether enough of a sealed segment of `blocks` blocks, `live` of them live, is dead copies and headers.
    pub(crate) fn is_mostly_dead(&self, live: u32, blocks: u32) -> bool {
        let percent = if self.copies.are_many { DEAD_FIRST_PERCENT } else { DEAD_FIRST_PERCENT_MAX };
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
            assert_eq!(retention.place(key).unwrap().queue, Queue::Main);
        }
        assert_eq!(retention.target(), 950);
        for _ in 0..1_000 {
            retention.on_left(key, Queue::Main);
            assert_eq!(retention.place(key).unwrap().queue, Queue::Probation);
            retention.left_probation.take(key.hash());
        }
        assert_eq!(retention.target(), 10);
    }

    #[test]
    fn fewer_dead_blocks_are_cleaned_while_copies_are_few() {
        let mut retention = Retention::new(1_000);
        assert!(retention.is_mostly_dead(70, 100) && !retention.is_mostly_dead(71, 100));
        assert_eq!(retention.carried_max(Reason::Turn, 100, 100), 75);
        retention.observe(Work { copied: 95, admitted: 100 }, Asked::default());
        assert!(retention.is_mostly_dead(50, 100) && !retention.is_mostly_dead(51, 100));
        assert_eq!(retention.carried_max(Reason::Turn, 100, 100), 50);
        assert_eq!(retention.carried_max(Reason::Dead, 100, 100), 100);
        retention.observe(Work { copied: 95, admitted: 120 }, Asked::default());
        assert!(retention.is_mostly_dead(70, 100), "copies are few again");
    }

    #[test]
    fn stale_data_leaves_first_only_while_the_cache_is_used_well() {
        let mut retention = Retention::new(1_000);
        let asked = |hits, misses| Asked { hits, misses };
        retention.observe(Work::default(), asked(100, 200));
        assert!(retention.is_stale(9, 100) && !retention.is_stale(10, 100));
        retention.observe(Work::default(), asked(100, 800));
        assert!(!retention.is_stale(0, 100), "a scan is no proof");
        retention.observe(Work::default(), asked(1_500, 800));
        assert!(retention.is_stale(0, 100), "and is forgotten");
    }

    #[test]
    fn what_lives_in_a_dead_segment_stays_in_its_queue() {
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
