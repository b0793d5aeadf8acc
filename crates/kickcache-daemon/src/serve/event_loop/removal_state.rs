//! The removal of a volume from the loop.

use std::sync::mpsc::Sender;

use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::{Location, VolumeId};

use crate::plan::removal::DirtyFate;
use crate::serve::error::ServeError;
use crate::serve::verbs::membership::EmptyVolume;

/// The longest time of [`RemovalStep::Quieting`]; after that, the volume stays.
const QUIET_MAX: Duration = Duration::from_millis(5_000);
/// If the user accepts the loss of blocks, the origin is abandoned this long before the end of [`QUIET_MAX`].
const GIVE_UP_BEFORE: Duration = Duration::from_millis(3_000);
/// The interval of checks if no event occurs.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The channel for the answer to the caller.
pub(crate) type Answer = Sender<Result<EmptyVolume, ServeError>>;

/// A volume that is being removed.
pub(crate) struct RemovalState {
    pub(crate) id: VolumeId,
    /// The index of the volume.
    pub(crate) index: usize,
    pub(crate) dirty: DirtyFate,
    pub(crate) step: RemovalStep,
    /// The caller; `None` once it was answered.
    pub(crate) answer: Option<Answer>,
    /// Blocks that the origin lacks or has not flushed, and that are abandoned by order.
    pub(crate) lost_blocks: u64,
    until: Instant,
    has_given_up: bool,
}

/// The step of a removal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RemovalStep {
    /// The removal waits until clients have their replies, and the origin has all data or its missing blocks are
    /// abandoned.
    Quieting,
    /// The volume's blocks are dropped, from this location on.
    Forgetting(Location),
    /// The removal of the volume's blocks becomes durable.
    Sealing,
    /// The caller writes the superblock.
    Recording,
}

impl RemovalState {
    pub(crate) fn begin(
        now: Instant,
        id: VolumeId,
        index: usize,
        dirty: DirtyFate,
        answer: Answer,
    ) -> RemovalState {
        let until = now.plus(QUIET_MAX);
        let step = RemovalStep::Quieting;
        RemovalState {
            id,
            index,
            dirty,
            step,
            answer: Some(answer),
            lost_blocks: 0,
            until,
            has_given_up: false,
        }
    }

    /// When the loop must turn for the removal.
    pub(crate) fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        match self.step {
            RemovalStep::Quieting => Some(self.until.min(now.plus(LOOK_EVERY))),
            RemovalStep::Forgetting(_) => Some(now),
            // No check is due: the end of the engine's or the caller's work wakes the loop.
            RemovalStep::Sealing | RemovalStep::Recording => None,
        }
    }

    /// Returns `true` once, when the removal stops waiting for the origin, whose missing blocks are
    /// abandoned.
    pub(crate) fn gives_up(&mut self, now: Instant) -> bool {
        let is_late = now.plus(GIVE_UP_BEFORE) >= self.until;
        let gives_up = is_late && self.dirty == DirtyFate::Abandoned && !self.has_given_up;
        self.has_given_up |= gives_up;
        gives_up
    }

    /// Whether the removal has taken [`QUIET_MAX`] or longer.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        now >= self.until
    }
}
