//! A volume that comes or goes while its server serves others: orders to the loop. What may wait for a device or for another
//! machine is done between them by the thread of whoever asks ([`crate::serve::joining`], [`crate::serve::parting`]).
//!
//! One at a time changes the superblock: who has a [`Lease`] writes it, and the loop takes over what was written when the lease
//! ends.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::samples::Sample;
use kickcache_engine::units::VolumeId;

use crate::driver::device::BlockFile;
use crate::driver::executor::Parted;
use crate::driver::io_engine::IoEngine;
use crate::plan::Exposure;
use crate::plan::address::NbdAddress;
use crate::plan::removal::{Clients, DirtyFate};
use crate::serve::error::ServeError;
use crate::serve::frontend::open_places::OpenPlaces;
use crate::serve::known_volume::KnownVolume;
use crate::serve::open_volume::OpenVolume;
use crate::serve::served_volumes::Volume;

/// An order to the loop about who is served.
pub(crate) enum MembershipOrder {
    /// Tell who is.
    Members(Sender<Result<Members, ServeError>>),
    /// Some clean blocks of a volume of the cache device that is not served, and how many it has that are not clean.
    Held(VolumeId, Sender<Held>),
    /// Let me write the superblock.
    Lease(Sender<Result<Lease, ServeError>>),
    /// I have written it, if there is one.
    EndLease(Option<Box<Superblock>>, Sender<()>),
    /// Serve a volume, whose superblock was written: that ends the lease.
    Join(Box<Joining>, Sender<Result<(), ServeError>>),
    /// Let go of a volume; if that is done there is a lease.
    Leave(LeaveOrder, Sender<Result<Left, ServeError>>),
    /// The superblock without it was written, or could not be: forget it. That ends the lease.
    EndLeave(Option<Box<Superblock>>, Sender<GoneVolume>),
    /// Serve a volume at other places.
    ChangePlaces(Box<PlaceOrder>, Sender<Result<(), ServeError>>),
}

/// Who is served, and with what.
pub(crate) struct Members {
    pub(crate) superblock: Superblock,
    pub(crate) cache: Arc<BlockFile>,
    /// Origins that are files or block devices.
    pub(crate) origins: Vec<Arc<BlockFile>>,
    /// Addresses that volumes may share.
    pub(crate) addresses: Vec<NbdAddress>,
    pub(crate) volumes: Vec<Member>,
    /// How devices are driven.
    pub(crate) io_engine: IoEngine,
}

impl Members {
    /// That of a name.
    pub(crate) fn member(&self, name: &str) -> Option<&Member> {
        self.volumes.iter().find(|member| member.volume.identity.name == name)
    }
}

/// A volume that is served.
pub(crate) struct Member {
    pub(crate) volume: KnownVolume,
    /// The block device of this host that it is.
    pub(crate) block_device: Option<PathBuf>,
}

/// What the cache device has of a volume that is not served.
pub(crate) struct Held {
    pub(crate) cached: u64,
    pub(crate) not_clean: u64,
    /// By which an origin is recognised.
    pub(crate) samples: Vec<Sample>,
}

/// Who has this writes the superblock, and nobody else does.
pub(crate) struct Lease {
    /// As it stands on the device.
    pub(crate) superblock: Superblock,
    pub(crate) cache: Arc<BlockFile>,
}

/// A volume that is ready to be served.
pub(crate) struct Joining {
    pub(crate) superblock: Superblock,
    pub(crate) volume: OpenVolume,
    pub(crate) places: OpenPlaces,
    pub(crate) exposure: Exposure,
}

/// Which volume is to go, and what may be lost with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LeaveOrder {
    pub(crate) name: String,
    pub(crate) clients: Clients,
    pub(crate) dirty: DirtyFate,
}

/// A volume of which nothing is left in the cache, durably.
pub(crate) struct Left {
    pub(crate) id: VolumeId,
    /// Blocks that the origin lacks.
    pub(crate) lost_blocks: u64,
    pub(crate) lease: Lease,
}

/// A volume that is gone from the loop; its device is closed when this is dropped.
pub(crate) struct GoneVolume {
    pub(crate) _volume: Option<Volume>,
    pub(crate) _device: Parted,
}

/// Places that a volume comes to, and those that it leaves.
pub(crate) struct PlaceOrder {
    pub(crate) name: String,
    pub(crate) added: OpenPlaces,
    pub(crate) removed: Vec<NbdAddress>,
    /// The socket for virtual machines.
    pub(crate) guests: PlaceFate,
    /// The block device of this host.
    pub(crate) device: PlaceFate,
    pub(crate) exposure: Exposure,
}

/// What becomes of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PlaceFate {
    Stays,
    Goes,
}
