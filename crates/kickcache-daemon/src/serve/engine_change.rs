//! The engine behind the front ends gives way to another one while volumes are served: to one without a cache, where the cache device
//! is left out, or to one with an empty cache device, where one is taken in. Orders to the loop; what may wait for a device is done
//! between them by the thread of whoever asks ([`crate::serve::leaving_out`], [`crate::serve::taking_in`]).
//!
//! New requests wait for the moment in which nothing is in flight.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use kickcache_engine::engine::Engine;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::time::{Duration, Instant};

use crate::driver::clock::Clock;
use crate::driver::device::BlockFile;
use crate::driver::executor::Parted;
use crate::driver::io_engine::IoEngine;
use crate::plan::removal::DirtyFate;
use crate::serve::error::ServeError;
use crate::serve::notes::Notes;
use crate::serve::volume_info::VolumeInfo;

/// How long new requests wait at most; then the engine stays.
const QUIET_MAX: Duration = Duration::from_millis(5_000);
/// Time between two looks at what it waits for.
const LOOK_PAUSE: Duration = Duration::from_millis(1);

/// An order to the loop about its engine.
pub(crate) enum EngineOrder {
    /// Tell what there is.
    Look(Sender<Result<Behind, ServeError>>),
    /// The same, and change nothing of it until [`EngineOrder::Change`] or [`EngineOrder::Stay`].
    Begin(Sender<Result<Behind, ServeError>>),
    /// Have another engine in the place of this one.
    Change(Box<Other>, Sender<Result<Former, ServeError>>),
    /// It stays.
    Stay(Sender<()>),
}

/// How the loop is asked.
pub(crate) trait AskEngine {
    /// Gives an order, and waits for what comes of it.
    fn ask_engine<T>(&self, order: impl FnOnce(Sender<T>) -> EngineOrder) -> Result<T, ServeError>;
}

/// What is behind the front ends.
pub(crate) struct Behind {
    pub(crate) superblock: Superblock,
    pub(crate) cache: CacheUse,
    pub(crate) clock: Clock,
    /// How devices are driven.
    pub(crate) io_engine: IoEngine,
    pub(crate) volumes: Vec<VolumeInfo>,
    /// What the cache device has that the origins lack, or have not flushed, of volumes that are served or not.
    pub(crate) unclean: Vec<Unclean>,
    /// Origins that are files or block devices.
    pub(crate) origins: Vec<Arc<BlockFile>>,
}

/// Whether there is a cache device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CacheUse {
    /// There is, in service or not.
    Used,
    /// Volumes are served without.
    None,
}

/// Blocks of a volume that its origin lacks, or has not flushed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unclean {
    /// Its name.
    pub volume: String,
    /// How many.
    pub blocks: u64,
    /// Whether it is served: else nobody writes them back.
    pub is_served: bool,
}

/// Another engine, which has read its log back and submitted nothing since.
pub(crate) struct Other {
    pub(crate) engine: Engine,
    pub(crate) superblock: Superblock,
    pub(crate) kind: OtherKind,
}

/// What is behind it.
pub(crate) enum OtherKind {
    /// No cache device.
    WithoutCache(DirtyFate),
    /// This one, and what is noted of it.
    WithCache(BlockFile, Arc<Notes>),
}

/// What is behind the front ends no more.
pub(crate) struct Former {
    /// What was given up.
    pub(crate) lost: Vec<Unclean>,
    /// The cache device, which is closed when this is dropped.
    pub(crate) _cache: Parted,
}

/// Whether the engine is to give way.
#[derive(Default)]
pub(crate) enum EngineLease {
    /// It is not.
    #[default]
    None,
    /// Somebody prepares another one.
    Prepared,
    /// Requests wait for that.
    Changing(EngineChange),
}

impl EngineLease {
    /// Whether it is to.
    pub(crate) fn is_some(&self) -> bool {
        !matches!(self, EngineLease::None)
    }

    /// What is under way.
    pub(crate) fn change(&mut self) -> Option<&mut EngineChange> {
        match self {
            EngineLease::Changing(change) => Some(change),
            EngineLease::None | EngineLease::Prepared => None,
        }
    }

    /// When the loop must turn for it: what it waits for is often the end of something else.
    pub(crate) fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        match self {
            EngineLease::Changing(_) => Some(now.plus(LOOK_PAUSE)),
            EngineLease::None | EngineLease::Prepared => None,
        }
    }
}

/// A change under way.
pub(crate) struct EngineChange {
    pub(crate) other: Box<Other>,
    pub(crate) step: EngineStep,
    pub(crate) answer: Sender<Result<Former, ServeError>>,
    /// Since when requests wait, and since when it is at its step.
    pub(crate) begun: Instant,
    pub(crate) step_begun: Instant,
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EngineStep {
    /// Requests come to their end, and origins get everything.
    Quieting,
    /// It is put on record that the cache device is out of service.
    Recording,
    /// Nothing is to be in flight.
    Parting,
}

impl EngineChange {
    pub(crate) fn begin(
        now: Instant,
        other: Box<Other>,
        answer: Sender<Result<Former, ServeError>>,
    ) -> EngineChange {
        let step = match other.kind {
            OtherKind::WithoutCache(_) => EngineStep::Quieting,
            OtherKind::WithCache(..) => EngineStep::Parting,
        };
        EngineChange { other, step, answer, begun: now, step_begun: now }
    }

    /// Whether it has taken too long.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        now >= self.begun.plus(QUIET_MAX)
    }

    /// The next step, and how long the one before it took.
    pub(crate) fn go_on(&mut self, now: Instant, step: EngineStep) -> Duration {
        self.step = step;
        let took = now.since(self.step_begun);
        self.step_begun = now;
        took
    }
}
