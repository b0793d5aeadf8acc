//! Verbs for the served volumes: a volume is added, removed, or served at other places. Steps that may wait for a device or for
//! another machine are in the scripts ([`crate::operations::volume_addition`], [`crate::operations::volume_removal`]).

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

/// The event loop as the operations on its volumes use it. A caller that adds or removes a volume has the lease of the
/// superblock.
pub(crate) trait MembershipVerbs {
    /// The served volumes.
    ///
    /// # Errors
    /// The cache device is not in service, or the server is stopping.
    fn members(&self) -> Result<Members, ServeError>;

    /// The blocks of an unserved volume on the cache device.
    fn unserved_blocks(&self, id: VolumeId) -> VolumeBlockCount;

    /// Serves a volume, after the superblock with it was written.
    ///
    /// # Errors
    /// The cache device is not in service, or the server is stopping: the volume is not served.
    fn join(&mut self, now: Instant, joining: NewVolume) -> Result<(), ServeError>;

    /// Begins a removal: the volume accepts no clients any more. Present clients are disconnected if they may be.
    ///
    /// # Errors
    /// It is not served, the only volume, or has clients that are to be respected.
    fn begin_removal(&mut self, volume: &str, clients: Clients) -> Result<VolumeId, ServeError>;

    /// Has the origin of the volume that is being removed get all data, unless they are abandoned; returns how far that is.
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

    /// Ends a removal: the volume stays, and accepts clients again unless the server is stopping.
    fn keep_volume(&mut self);

    /// Ends a removal: the volume is not served any more. `superblock` was written without it; `None` if that failed.
    fn end_removal(&mut self, superblock: Option<Box<Superblock>>) -> Option<GoneVolume>;

    /// Serves a volume at other places.
    ///
    /// # Errors
    /// It is not served, or a virtual machine uses the socket that is to go.
    fn change_places(&mut self, order: PlaceOrder) -> Result<(), ServeError>;
}

/// The served volumes and their parameters.
pub(crate) struct Members {
    pub(crate) superblock: Superblock,
    pub(crate) cache: Arc<BlockFile>,
    /// Origins that are files or block devices.
    pub(crate) origins: Vec<Arc<BlockFile>>,
    /// Addresses that volumes may share.
    pub(crate) addresses: Vec<NbdAddress>,
    pub(crate) volumes: Vec<Member>,
    /// How devices are read and written.
    pub(crate) io_engine: IoEngine,
}

impl Members {
    /// The served volume of this name.
    pub(crate) fn member(&self, name: &str) -> Option<&Member> {
        self.volumes.iter().find(|member| member.volume.identity.name == name)
    }
}

/// A volume that is served.
pub(crate) struct Member {
    pub(crate) volume: KnownVolume,
    /// The volume's block device of this host, if it has one.
    pub(crate) block_device: Option<PathBuf>,
}

/// The blocks on the cache device of an unserved volume.
pub(crate) struct VolumeBlockCount {
    pub(crate) cached: u64,
    pub(crate) not_clean: u64,
    /// Samples of the volume's clean blocks, for the recognition of its origin.
    pub(crate) samples: Vec<Sample>,
}

/// A volume that is ready to be served.
pub(crate) struct NewVolume {
    pub(crate) superblock: Superblock,
    pub(crate) volume: OpenVolume,
    pub(crate) places: OpenPlaces,
    pub(crate) exposure: Exposure,
}

/// A volume that is being removed.
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
    /// Whether no operation is in flight for the volume; if its dirty blocks are abandoned, operations of writeback do not count.
    pub(crate) is_idle: bool,
}

impl Quiescence {
    /// Whether the blocks of the volume can be dropped.
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

/// Addresses that a volume gains, and addresses that it loses.
pub(crate) struct PlaceOrder {
    pub(crate) name: String,
    pub(crate) added: OpenPlaces,
    pub(crate) removed: Vec<NbdAddress>,
    /// Whether the volume keeps or loses its previous socket for virtual machines.
    pub(crate) guests: PlaceFate,
    /// Whether the volume keeps or loses its block device of this host.
    pub(crate) device: PlaceFate,
    pub(crate) exposure: Exposure,
}

/// The change of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PlaceFate {
    Stays,
    Goes,
}
