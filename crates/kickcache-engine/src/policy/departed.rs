//! What left a cache, the real one or a miniature, and what follows from that: where it starts when it comes back, and how
//! much probation shall hold.

use crate::policy::ghost::{Content, Ghost};
use crate::queue::Queue;
use crate::step::Step;

/// Probation's share of the cache at first, one part in this many.
const START_SHARE: u64 = 10;
/// Blocks that left a queue just now, as a part of the capacity.
const JUST_LEFT_SHARE: u64 = 10;
/// Blocks that left probation and are remembered, in tenths of the capacity.
const NOTED_TENTHS: usize = 8;
/// Blocks that left until those from before count half, as a part of the capacity.
const LEFT_SHARE: u64 = 4;
const LEFT_MIN: u64 = 64;
/// Blocks by which one ghost hit moves probation's target.
const STEP: u64 = 2;

/// What ghost memory knows of a block that is not cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    /// Where it starts.
    pub(crate) queue: Queue,
    /// When it was noted.
    pub(crate) noted: Noted,
}

/// Blocks that probation shall hold at first.
fn target_at_first(capacity: u64) -> u64 {
    capacity / tuned!(Start, START_SHARE)
}

/// Blocks that each ghost has room for, in a cache of a number of them.
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

/// Ghost memory of both queues, and probation's target. Blocks are told by a hash.
#[derive(Debug)]
pub(crate) struct Departed {
    capacity: u64,
    /// Blocks that probation shall hold.
    target: u64,
    /// Left probation a while ago, or was turned away.
    probation: Ghost,
    /// Left probation just now.
    probation_recently: Ghost,
    /// Left main just now.
    main_recently: Ghost,
    /// Blocks that left recently, and those of them that came back at once.
    left: u64,
    returned: u64,
}

impl Departed {
    /// Of a cache of this many blocks.
    pub(crate) fn new(capacity: u64) -> Departed {
        let rooms = Rooms::of(capacity);
        Departed {
            capacity,
            target: target_at_first(capacity),
            probation: Ghost::new(rooms.probation),
            probation_recently: Ghost::new(rooms.recently),
            main_recently: Ghost::new(rooms.recently),
            left: 0,
            returned: 0,
        }
    }

    /// How many of the blocks that leave are asked for again while the ghosts of what left just now remember them, in 1/1024.
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

    /// A part of that.
    pub(crate) fn grow(&mut self) -> Step {
        let mut ghosts =
            [&mut self.probation, &mut self.probation_recently, &mut self.main_recently].into_iter();
        if ghosts.all(|ghost| ghost.grow() == Step::Done) { Step::Done } else { Step::More }
    }

    /// Room was made: the cache has this many blocks from here on.
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

    /// Blocks that probation shall hold.
    pub(crate) const fn target(&self) -> u64 {
        self.target
    }

    /// A block that is not cached was asked for: in which queue does it start, if it is known? What left main had its
    /// time there, and begins again in probation.
    pub(crate) fn place(&mut self, hash: u64) -> Option<Known> {
        if self.probation_recently.take(hash).is_some() {
            self.returned += 1;
            self.target = (self.target + tuned!(Step, STEP)).min(self.capacity * 95 / 100);
            return Some(Known { queue: Queue::Main, noted: Noted::Lately });
        }
        if self.main_recently.take(hash).is_some() {
            self.returned += 1;
            self.target = self.target.saturating_sub(tuned!(Step, STEP)).max(self.capacity / 100).max(1);
            return Some(Known { queue: Queue::Probation, noted: Noted::Lately });
        }
        let noted = match self.probation.take(hash)? {
            age if age * tuned!(Noted, NOTED_TENTHS) < Ghost::AGE_MAX => Noted::JustNow,
            age if age * 2 < Ghost::AGE_MAX => Noted::Lately,
            _ => Noted::LongAgo,
        };
        Some(Known { queue: Queue::Main, noted })
    }

    /// An unknown block was asked for and turned away; its next turn will be its second.
    pub(crate) fn remember(&mut self, hash: u64) {
        self.probation.insert(hash);
    }

    /// Whether what is turned away is counted, in half of the memory of what left probation a while ago.
    pub(crate) const fn change(&mut self, content: Content) {
        self.probation.change(content);
    }

    /// A block was turned away; gives how often it was of late, at most [`COUNT_MAX`](crate::policy::ghost::COUNT_MAX).
    pub(crate) fn count(&mut self, hash: u64) -> u8 {
        self.probation.count(hash)
    }

    /// Some turns pass for what is counted.
    pub(crate) const fn pass(&mut self, turns: u16) {
        self.probation.pass(turns);
    }

    /// A clean block was forgotten.
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

    /// Forgets everything.
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
        let mut departed = Departed::new(1_000);
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
