//! Adding and removing a volume while its server serves others: orders to the loop. Steps that may wait for a
//! device or for another machine are done between the orders by the caller's thread
//! ([`crate::operations::volume_addition`], [`crate::operations::volume_removal`]).
//!
//! Only one operation at a time writes the superblock: here the owner of a `Lease`. The loop takes over the written
//! copy, if any, when the lease ends.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::samples::Sample;
use kickcache_engine::units::VolumeId;

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

/// An order to the loop about the served volumes.
pub(crate) enum MembershipOrder {
    /// Return the served volumes.
    Members(Sender<Result<Members, ServeError>>),
    /// Return how many blocks of an unserved volume are cached and not clean, with samples of its clean blocks.
    Held(VolumeId, Sender<VolumeBlockCount>),
    /// Give the caller the exclusive right to write the superblock.
    Lease(Sender<Result<Lease, ServeError>>),
    /// End the lease; a superblock, if given, was written.
    EndLease(Option<Box<Superblock>>, Sender<()>),
    /// Serve a volume after the superblock with it was written; the lease ends.
    Join(Box<NewVolume>, Sender<Result<(), ServeError>>),
    /// Drop all blocks of a volume; the answer has a lease of the superblock.
    Leave(LeaveOrder, Sender<Result<EmptyVolume, ServeError>>),
    /// Remove the volume, after the write of the superblock without it has succeeded or failed; the lease
    /// ends.
    EndLeave(Option<Box<Superblock>>, Sender<GoneVolume>),
    /// Serve a volume at other places.
    ChangePlaces(Box<PlaceOrder>, Sender<Result<(), ServeError>>),
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

/// The exclusive right to write the superblock.
pub(crate) struct Lease {
    /// The superblock as on the device.
    pub(crate) superblock: Superblock,
    pub(crate) cache: Arc<BlockFile>,
}

/// A volume that is ready to be served.
pub(crate) struct NewVolume {
    pub(crate) superblock: Superblock,
    pub(crate) volume: OpenVolume,
    pub(crate) places: OpenPlaces,
    pub(crate) exposure: Exposure,
}

/// The volume to remove, and whether its dirty blocks may be lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LeaveOrder {
    pub(crate) name: String,
    pub(crate) clients: Clients,
    pub(crate) dirty: DirtyFate,
}

/// A volume without any block in the cache, durably.
pub(crate) struct EmptyVolume {
    pub(crate) id: VolumeId,
    /// Blocks that the origin lacks or has not flushed, and that were abandoned by order.
    pub(crate) lost_blocks: u64,
    pub(crate) lease: Lease,
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
