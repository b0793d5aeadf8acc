//! Verbs that replace the engine while volumes are served, to take a cache device out of use or into use.

use std::sync::Arc;

use kickcache_engine::engine::Engine;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::time::Instant;

use crate::devices::origin_records::OriginRecords;
use crate::driver::clock::Clock;
use crate::driver::device::BlockFile;
use crate::driver::executor::RemovedDevice;
use crate::driver::io_engine::IoEngine;
use crate::plan::removal::DirtyFate;
use crate::serve::error::ServeError;
use crate::serve::volume_info::VolumeInfo;

/// The caller has the lease of the superblock, except for [`ExchangeVerbs::current_engine`].
pub(crate) trait ExchangeVerbs {
    /// # Errors
    /// An obstacle to an exchange; [`ServeError::Busy`] if another operation has the superblock.
    fn current_engine(&self) -> Result<CurrentEngine, ServeError>;

    /// Holds new requests back until the exchange, the end of the lease or a deadline.
    fn hold_requests(&mut self, now: Instant);

    /// Leaves the cache device out of use, if the requests before the hold have ended and the origins have all data, flushed,
    /// or dirty blocks are abandoned.
    ///
    /// # Errors
    /// Requests are not held back any more, or the server is stopping.
    fn leave_out_if_quiet(&mut self, now: Instant, fate: DirtyFate) -> Result<StepState, ServeError>;

    /// Whether it is on record that the cache device is left out.
    ///
    /// # Errors
    /// As [`ExchangeVerbs::leave_out_if_quiet`]; or that cannot be recorded.
    fn check_left_out(&self) -> Result<StepState, ServeError>;

    /// Replaces the engine and passes held requests on, if no request and no operation of a device is in
    /// flight.
    ///
    /// # Errors
    /// As [`ExchangeVerbs::leave_out_if_quiet`].
    fn exchange_if_idle(&mut self, now: Instant, other: Box<NewEngine>) -> Result<Exchanged, ServeError>;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StepState {
    Done,
    /// The caller repeats the verb later.
    Waiting,
}

pub(crate) enum Exchanged {
    Done(OldDevices),
    /// Something is in flight; this is the new engine, for the next attempt.
    NotYet(Box<NewEngine>),
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum RequestHold {
    #[default]
    None,
    /// Requests are held back since `begun`.
    Held { begun: Instant, awaits: AwaitedWork },
    /// Requests were held back for too long, for this reason.
    Expired(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AwaitedWork {
    Requests,
    Writeback,
}

pub(crate) struct CurrentEngine {
    pub(crate) superblock: Superblock,
    pub(crate) cache: CacheUse,
    pub(crate) clock: Clock,
    pub(crate) io_engine: IoEngine,
    pub(crate) volumes: Vec<VolumeInfo>,
    /// Blocks on the cache device that the origins lack, or have not flushed, for served and unserved
    /// volumes.
    pub(crate) unclean: Vec<UncleanBlocks>,
    /// Origins that are files or block devices.
    pub(crate) origins: Vec<Arc<BlockFile>>,
}

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
    pub volume: String,
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

pub(crate) enum NewEngineKind {
    WithoutCache(DirtyFate),
    WithCache(BlockFile, Arc<OriginRecords>),
}

pub(crate) struct OldDevices {
    /// The abandoned blocks.
    pub(crate) lost: Vec<UncleanBlocks>,
    /// The cache device, which is closed when this is dropped.
    pub(crate) _cache: RemovedDevice,
}
