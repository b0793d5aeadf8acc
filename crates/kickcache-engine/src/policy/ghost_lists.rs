//! Dropped and rejected blocks of a cache, real or miniature: the queue in which such a block starts when it is
//! requested again, and the target size of probation.

use crate::policy::ghost::{Content, Ghost};
use crate::queue::Queue;
use crate::step::Step;

/// Probation's share of the cache at first, one part in this many.
const START_SHARE: u64 = 10;
/// Blocks just dropped from each queue that are remembered: the capacity divided by this.
const JUST_LEFT_SHARE: u64 = 10;
/// Blocks dropped from probation, or rejected, that are remembered, in tenths of the capacity.
const NOTED_TENTHS: usize = 8;
/// At this count of dropped blocks, it and the count of returned ones are halved: the capacity divided by this, twice
/// [`LEFT_MIN`] at least.
const LEFT_SHARE: u64 = 4;
const LEFT_MIN: u64 = 64;
/// Blocks by which a hit in a ghost of just dropped blocks moves probation's target.
const STEP: u64 = 2;

/// The entry of ghost memory for a block that is not cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GhostEntry {
    /// The queue in which the block starts if it is admitted.
    pub(crate) queue: Queue,
    pub(crate) noted: EntryAge,
}

fn target_at_first(capacity: u64) -> u64 {
    capacity / tuned!(Start, START_SHARE)
}

/// The sizes of the ghosts, in blocks.
struct Rooms {
    probation: u64,
    recently: u64,
}

impl Rooms {
    fn of(capacity: u64) -> Rooms {
        let probation = capacity * tuned!(Noted, NOTED_TENTHS) as u64 / 10;
        Rooms { probation, recently: capacity / tuned!(JustLeft, JUST_LEFT_SHARE) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum EntryAge {
    /// The entry is in the newest part of its memory, or a client requested the promotion.
    JustNow,
    /// The entry is in the newer half of its memory, or in a ghost of just dropped blocks.
    Lately,
    /// The entry is in the older half of its memory.
    LongAgo,
}

/// Ghost memory of both queues, and the target size of probation. Blocks are identified by a hash.
#[derive(Debug)]
pub(crate) struct GhostLists {
    capacity: u64,
    /// The target size of probation in blocks, while main is not frozen.
    target: u64,
    /// Blocks that were dropped from probation, or rejected.
    probation: Ghost,
    /// Just dropped from probation.
    probation_recently: Ghost,
    /// Just dropped from main.
    main_recently: Ghost,
    /// Recently dropped blocks, and blocks among them that were requested again at once.
    left: u64,
    returned: u64,
}

impl GhostLists {
    pub(crate) fn new(capacity: u64) -> GhostLists {
        let rooms = Rooms::of(capacity);
        GhostLists {
            capacity,
            target: target_at_first(capacity),
            probation: Ghost::new(rooms.probation),
            probation_recently: Ghost::new(rooms.recently),
            main_recently: Ghost::new(rooms.recently),
            left: 0,
            returned: 0,
        }
    }

    /// The share of dropped blocks that are requested again while they are in the ghosts of just dropped blocks, in
    /// 1/1024.
    pub(crate) fn returned_share(&self) -> u64 {
        self.returned * 1024 / self.left.max(LEFT_MIN)
    }

    fn note_left(&mut self) {
        self.left += 1;
        if self.left >= (self.capacity / LEFT_SHARE).max(2 * LEFT_MIN) {
            (self.left, self.returned) = (self.left / 2, self.returned / 2);
        }
    }

    /// Begins to make room for a cache of more blocks; `None` if there is no memory.
    pub(crate) fn begin_growth(&mut self, capacity: u64) -> Option<()> {
        let rooms = Rooms::of(capacity);
        self.probation.begin_growth(rooms.probation)?;
        self.probation_recently.begin_growth(rooms.recently)?;
        self.main_recently.begin_growth(rooms.recently)
    }

    pub(crate) fn grow(&mut self) -> Step {
        let mut ghosts =
            [&mut self.probation, &mut self.probation_recently, &mut self.main_recently].into_iter();
        if ghosts.all(|ghost| ghost.grow() == Step::Done) { Step::Done } else { Step::More }
    }

    pub(crate) fn use_grown(&mut self, capacity: u64) {
        for ghost in [&mut self.probation, &mut self.probation_recently, &mut self.main_recently] {
            ghost.use_grown();
        }
        let scaled = u128::from(self.target) * u128::from(capacity) / u128::from(self.capacity.max(1));
        self.target = u64::try_from(scaled).expect("less than the capacity");
        self.capacity = capacity;
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        [&self.probation, &self.probation_recently, &self.main_recently].map(Ghost::memory_bytes).iter().sum()
    }

    pub(crate) const fn target(&self) -> u64 {
        self.target
    }

    /// Removes and returns the entry of a requested block that is not cached.
    pub(crate) fn place(&mut self, hash: u64) -> Option<GhostEntry> {
        if self.probation_recently.take(hash).is_some() {
            self.returned += 1;
            self.target = (self.target + tuned!(Step, STEP)).min(self.capacity * 95 / 100);
            return Some(GhostEntry { queue: Queue::Main, noted: EntryAge::Lately });
        }
        if self.main_recently.take(hash).is_some() {
            self.returned += 1;
            self.target = self.target.saturating_sub(tuned!(Step, STEP)).max(self.capacity / 100).max(1);
            return Some(GhostEntry { queue: Queue::Probation, noted: EntryAge::Lately });
        }
        let noted = match self.probation.take(hash)? {
            age if age * tuned!(Noted, NOTED_TENTHS) < Ghost::AGE_MAX => EntryAge::JustNow,
            age if age * 2 < Ghost::AGE_MAX => EntryAge::Lately,
            _ => EntryAge::LongAgo,
        };
        Some(GhostEntry { queue: Queue::Main, noted })
    }

    pub(crate) fn remember(&mut self, hash: u64) {
        self.probation.insert(hash);
    }

    /// Sets whether misses are counted.
    pub(crate) const fn change(&mut self, content: Content) {
        self.probation.change(content);
    }

    /// A block missed; returns how often recently, at most [`COUNT_MAX`](crate::policy::ghost::COUNT_MAX).
    pub(crate) fn count(&mut self, hash: u64) -> u8 {
        self.probation.count(hash)
    }

    pub(crate) const fn pass(&mut self, turns: u16) {
        self.probation.pass(turns);
    }

    pub(crate) fn on_left(&mut self, hash: u64, queue: Queue) {
        self.note_left();
        match queue {
            Queue::Probation => {
                self.probation_recently.insert(hash);
                self.probation.insert(hash);
            }
            Queue::Main => self.main_recently.insert(hash),
        }
    }

    /// Drops all entries, and resets the target size.
    pub(crate) fn clear(&mut self) {
        self.target = target_at_first(self.capacity);
        self.probation.change(Content::Prints);
        self.probation.clear();
        self.probation_recently.clear();
        self.main_recently.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_follows_the_ghosts_within_bounds() {
        let mut departed = GhostLists::new(1_000);
        let hash = 0x1234_5678_9abc_def0;
        for _ in 0..1_000 {
            departed.on_left(hash, Queue::Probation);
            assert_eq!(departed.place(hash).unwrap().queue, Queue::Main);
        }
        assert_eq!(departed.target(), 950);
        for _ in 0..1_000 {
            departed.on_left(hash, Queue::Main);
            assert_eq!(departed.place(hash).unwrap().queue, Queue::Probation);
            departed.probation.take(hash);
        }
        assert_eq!(departed.target(), 10);
        departed.on_left(hash, Queue::Main);
        departed.clear();
        assert_eq!((departed.target(), departed.place(hash)), (100, None));
    }
}
