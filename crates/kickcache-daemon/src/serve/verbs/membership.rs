//! Verbs for the served volumes: a volume is added, removed, or served at other places.

use std::path::PathBuf;
use std::sync::Arc;

use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::samples::Sample;
use kickcache_engine::time::Instant;
use kickcache_engine::units::{Location, VolumeId};

use crate::devices::open_volume::OpenVolume;
use crate::driver::device::BlockFile;
use crate::driver::executor::RemovedDevice;
use crate::driver::io_engine::IoEngine;
use crate::plan::Exposure;
use crate::plan::address::NbdAddress;
use crate::plan::removal::{Clients, DirtyFate};
use crate::serve::error::ServeError;
use crate::serve::frontend::open_places::OpenPlaces;
use crate::serve::known_volume::KnownVolume;
use crate::serve::served_volumes::Volume;

/// A caller that adds or removes a volume has the lease of the superblock.
pub(crate) trait MembershipVerbs {
    /// # Errors
    /// The cache device is not in service, or the server is stopping.
    fn members(&self) -> Result<Members, ServeError>;

    fn unserved_blocks(&self, id: VolumeId) -> VolumeBlockCount;

    /// Serves a volume, after the superblock with it was written.
    ///
    /// # Errors The cache device is not in service, the server is stopping, or an address cannot be
    /// served.
    fn join(&mut self, now: Instant, joining: NewVolume) -> Result<(), ServeError>;

    /// Begins a removal: the volume accepts no clients any more.
    ///
    /// # Errors
    /// It is not served, the only volume, or has clients that are to be respected.
    fn begin_removal(&mut self, volume: &str, clients: Clients) -> Result<VolumeId, ServeError>;

    /// Advances a removal; returns the obstacles that remain before the blocks of the volume can be dropped.
    ///
    /// # Errors
    /// The server is stopping.
    fn quiesce(&mut self, now: Instant, dirty: DirtyFate) -> Result<Quiescence, ServeError>;

    /// Stops waiting for operations of a volume's origin.
    fn give_up_origin(&mut self, id: VolumeId);

    /// Drops some blocks of a volume, from this location on; returns where to go on. When the last block was dropped, the
    /// engine begins to make that durable, and `None` is returned.
    fn forget_some(&mut self, now: Instant, id: VolumeId, from: Location) -> Option<Location>;

    /// Whether it is durable that the volume has no block in the cache.
    fn is_forgotten(&self, id: VolumeId) -> bool;

    /// Ends a removal: the volume stays.
    fn keep_volume(&mut self);

    /// Ends a removal: the volume is not served any more. `superblock` was written without it; `None` if that failed.
    fn end_removal(&mut self, superblock: Option<Box<Superblock>>) -> Option<GoneVolume>;

    /// # Errors An obstacle to the change.
    fn change_places(&mut self, order: PlaceOrder) -> Result<(), ServeError>;
}

pub(crate) struct Members {
    pub(crate) superblock: Superblock,
    pub(crate) cache: Arc<BlockFile>,
    /// Origins that are files or block devices.
    pub(crate) origins: Vec<Arc<BlockFile>>,
    /// Addresses that volumes may share.
    pub(crate) addresses: Vec<NbdAddress>,
    pub(crate) volumes: Vec<Member>,
    pub(crate) io_engine: IoEngine,
}

impl Members {
    pub(crate) fn member(&self, name: &str) -> Option<&Member> {
        self.volumes.iter().find(|member| member.volume.identity.name == name)
    }
}

pub(crate) struct Member {
    pub(crate) volume: KnownVolume,
    pub(crate) block_device: Option<PathBuf>,
}

/// The blocks on the cache device of an unserved volume.
pub(crate) struct VolumeBlockCount {
    pub(crate) cached: u64,
    pub(crate) not_clean: u64,
    /// Samples of the volume's clean blocks, for the recognition of its origin.
    pub(crate) samples: Vec<Sample>,
}

pub(crate) struct NewVolume {
    pub(crate) superblock: Superblock,
    pub(crate) volume: OpenVolume,
    pub(crate) places: OpenPlaces,
    pub(crate) exposure: Exposure,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeavingVolume {
    pub(crate) id: VolumeId,
    pub(crate) index: usize,
}

/// The obstacles that remain before the blocks of a volume can be dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Quiescence {
    /// Whether all requests of clients have ended.
    pub(crate) have_ended: bool,
    /// Blocks that the origin lacks or has not flushed.
    pub(crate) not_clean: u64,
    /// Whether no operation is in flight for the volume, and, unless dirty blocks are abandoned,
    /// its origin is flushed.
    pub(crate) is_idle: bool,
}

impl Quiescence {
    pub(crate) fn is_reached(&self, dirty: DirtyFate) -> bool {
        let is_clean = self.not_clean == 0 || dirty == DirtyFate::Abandoned;
        self.have_ended && is_clean && self.is_idle
    }
}

/// A volume that was removed from the loop; the drop of this closes the origin.
pub(crate) struct GoneVolume {
    pub(crate) _volume: Option<Volume>,
    pub(crate) _device: RemovedDevice,
}

pub(crate) struct PlaceOrder {
    pub(crate) name: String,
    pub(crate) added: OpenPlaces,
    pub(crate) removed: Vec<NbdAddress>,
    /// The previous socket for virtual machines.
    pub(crate) guests: PlaceFate,
    /// The block device of this host.
    pub(crate) device: PlaceFate,
    pub(crate) exposure: Exposure,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PlaceFate {
    Stays,
    Goes,
}
