//! A volume on its way out of the loop.

use std::sync::mpsc::Sender;

use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::{Location, VolumeId};

use crate::plan::removal::DirtyFate;
use crate::serve::error::ServeError;
use crate::serve::membership::Left;

/// How long it may take until nothing of it is in flight and all is written back; then it stays.
const QUIET_MAX: Duration = Duration::from_millis(5_000);
/// How long before that an origin that does not answer is given up, if what it lacks is abandoned.
const GIVE_UP_BEFORE: Duration = Duration::from_millis(3_000);
/// How often that is looked at, if nothing happens.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Who asked.
pub(crate) type Answer = Sender<Result<Left, ServeError>>;

/// A volume on its way out.
pub(crate) struct Leaving {
    pub(crate) id: VolumeId,
    /// Its index.
    pub(crate) index: usize,
    pub(crate) dirty: DirtyFate,
    pub(crate) step: LeavingStep,
    /// `None` once it was answered.
    pub(crate) answer: Option<Answer>,
    /// Blocks that its origin lacks and that are abandoned.
    pub(crate) lost_blocks: u64,
    until: Instant,
    has_given_up: bool,
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LeavingStep {
    /// Its clients have their replies, its origin everything.
    Quieting,
    /// Its blocks are forgotten, from here on.
    Forgetting(Location),
    /// That becomes durable.
    Sealing,
    /// Whoever asked writes the superblock.
    Recording,
}

impl Leaving {
    pub(crate) fn begin(
        now: Instant,
        id: VolumeId,
        index: usize,
        dirty: DirtyFate,
        answer: Answer,
    ) -> Leaving {
        let until = now.plus(QUIET_MAX);
        let step = LeavingStep::Quieting;
        Leaving { id, index, dirty, step, answer: Some(answer), lost_blocks: 0, until, has_given_up: false }
    }

    /// When the loop must turn for it.
    pub(crate) fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        match self.step {
            LeavingStep::Quieting => Some(self.until.min(now.plus(LOOK_EVERY))),
            LeavingStep::Forgetting(_) => Some(now),
            // The end of the engine's own work wakes the loop.
            LeavingStep::Sealing | LeavingStep::Recording => None,
        }
    }

    /// Whether its origin need not be waited for any more, for the first time: what it lacks is abandoned, and it does not answer.
    pub(crate) fn gives_up(&mut self, now: Instant) -> bool {
        let is_late = now.plus(GIVE_UP_BEFORE) >= self.until;
        let gives_up = is_late && self.dirty == DirtyFate::Abandoned && !self.has_given_up;
        self.has_given_up |= gives_up;
        gives_up
    }

    /// Whether it has taken too long.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        now >= self.until
    }
}
