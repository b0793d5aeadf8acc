//! Replaces the engine behind the front ends while volumes are served: by an engine without a cache, to take the cache
//! device out of use, or by one with a cache device, to put that into use. This
//! module has the orders to the loop; steps that may wait for a device are done between the orders by the
//! caller's thread ([`crate::operations::cache_removal`], [`crate::operations::cache_insertion`]).
//!
//! New requests wait until the engine is replaced, with no request in flight, or the change is cancelled.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use kickcache_engine::engine::Engine;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::time::{Duration, Instant};

use crate::devices::origin_records::OriginRecords;
use crate::driver::clock::Clock;
use crate::driver::device::BlockFile;
use crate::driver::executor::RemovedDevice;
use crate::driver::io_engine::IoEngine;
use crate::plan::removal::DirtyFate;
use crate::serve::error::ServeError;
use crate::serve::volume_info::VolumeInfo;

/// The longest time that new requests wait; after that, the present engine stays.
const QUIET_MAX: Duration = Duration::from_millis(5_000);
/// The longest time between two checks whether the next step can begin.
const LOOK_PAUSE: Duration = Duration::from_millis(1);

/// An order to the loop about its engine.
pub(crate) enum EngineOrder {
    /// Return the present state.
    Look(Sender<Result<CurrentEngine, ServeError>>),
    /// Return the present state, and keep the engine until [`EngineOrder::Change`] or [`EngineOrder::Stay`].
    Begin(Sender<Result<CurrentEngine, ServeError>>),
    /// Replace the engine by this one.
    Change(Box<NewEngine>, Sender<Result<OldDevices, ServeError>>),
    /// Keep the present engine.
    Stay(Sender<()>),
}

/// The engine and devices behind the front ends.
pub(crate) struct CurrentEngine {
    pub(crate) superblock: Superblock,
    pub(crate) cache: CacheUse,
    pub(crate) clock: Clock,
    /// How devices are read and written.
    pub(crate) io_engine: IoEngine,
    pub(crate) volumes: Vec<VolumeInfo>,
    /// Blocks on the cache device that the origins lack, or have not flushed, for served and unserved
    /// volumes.
    pub(crate) unclean: Vec<UncleanBlocks>,
    /// Origins that are files or block devices.
    pub(crate) origins: Vec<Arc<BlockFile>>,
}

/// Whether there is a cache device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CacheUse {
    /// There is a cache device, in service or not.
    Used,
    /// Volumes are served without a cache device.
    None,
}

/// Blocks of a volume that the origin lacks, or has not flushed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UncleanBlocks {
    /// Its name.
    pub volume: String,
    /// The number of blocks that the origin lacks or has not flushed.
    pub blocks: u64,
    /// Whether the volume is served: otherwise its blocks are not written back.
    pub is_served: bool,
}

/// The new engine, which has recovered its log and has not submitted anything since.
pub(crate) struct NewEngine {
    pub(crate) engine: Engine,
    pub(crate) superblock: Superblock,
    pub(crate) kind: NewEngineKind,
}

/// The devices of the new engine.
pub(crate) enum NewEngineKind {
    /// An engine without a cache device.
    WithoutCache(DirtyFate),
    /// An engine with this cache device, and the records of the device.
    WithCache(BlockFile, Arc<OriginRecords>),
}

/// The devices of the old engine.
pub(crate) struct OldDevices {
    /// The abandoned blocks.
    pub(crate) lost: Vec<UncleanBlocks>,
    /// The cache device, which is closed when this is dropped.
    pub(crate) _cache: RemovedDevice,
}

/// Whether the engine is to be replaced.
#[derive(Default)]
pub(crate) enum EngineLease {
    /// The engine is not to be replaced.
    #[default]
    None,
    /// A caller prepares another engine.
    Prepared,
    /// New requests wait until the engine is replaced, or the change is cancelled.
    Changing(EngineChange),
}

impl EngineLease {
    /// Whether a caller prepares another engine, or the engine is being replaced.
    pub(crate) fn is_some(&self) -> bool {
        !matches!(self, EngineLease::None)
    }

    /// The change in progress.
    pub(crate) fn change(&mut self) -> Option<&mut EngineChange> {
        match self {
            EngineLease::Changing(change) => Some(change),
            EngineLease::None | EngineLease::Prepared => None,
        }
    }

    /// The time of the next check of the change, if no other event begins a turn of the loop before.
    pub(crate) fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        match self {
            EngineLease::Changing(_) => Some(now.plus(LOOK_PAUSE)),
            EngineLease::None | EngineLease::Prepared => None,
        }
    }
}

/// A change in progress.
pub(crate) struct EngineChange {
    pub(crate) other: Box<NewEngine>,
    pub(crate) step: EngineStep,
    pub(crate) answer: Sender<Result<OldDevices, ServeError>>,
    /// The time since which requests wait, and the time at which the present step began.
    pub(crate) begun: Instant,
    pub(crate) step_begun: Instant,
}

/// The step of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EngineStep {
    /// Requests complete; unless dirty blocks are abandoned, the origins get all data.
    Quieting,
    /// The state directory or the device gets the record that the cache device is out of service.
    Recording,
    /// The change waits until no request and no operation of a device is in flight.
    Parting,
}

impl EngineChange {
    pub(crate) fn begin(
        now: Instant,
        other: Box<NewEngine>,
        answer: Sender<Result<OldDevices, ServeError>>,
    ) -> EngineChange {
        let step = match other.kind {
            NewEngineKind::WithoutCache(_) => EngineStep::Quieting,
            NewEngineKind::WithCache(..) => EngineStep::Parting,
        };
        EngineChange { other, step, answer, begun: now, step_begun: now }
    }

    /// Whether requests have waited for [`QUIET_MAX`].
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        now >= self.begun.plus(QUIET_MAX)
    }

    /// Begins the next step; returns how long the previous one took.
    pub(crate) fn go_on(&mut self, now: Instant, step: EngineStep) -> Duration {
        self.step = step;
        let took = now.since(self.step_begun);
        self.step_begun = now;
        took
    }
}
