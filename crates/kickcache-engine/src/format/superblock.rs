//! The superblock: what the device is, its layout, and the volumes that it serves. Two copies; the newest wins.

use alloc::string::String;
use alloc::vec::Vec;

use crate::error::Error;
use crate::format::geometry::Geometry;
use crate::units::VolumeId;

/// Bytes of one copy.
pub const SUPERBLOCK_SIZE: usize = 16_384;
/// Byte offsets of the copies.
pub const SUPERBLOCK_OFFSETS: [u64; 2] = [0, 512 << 10];
/// Format version that this code reads and writes.
pub const FORMAT_VERSION: u32 = 1;
/// Longest origin identity, in bytes of UTF-8.
pub const ORIGIN_IDENTITY_MAX: usize = 511;

/// A volume as the cache device knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeRecord {
    /// Its id in keys and headers.
    pub id: VolumeId,
    /// Its name, unique on this cache device.
    pub name: String,
    /// Bytes of the origin when it was attached.
    pub origin_size: u64,
    /// What the driver recognises the origin by.
    pub origin_identity: String,
}

/// What a superblock says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Random id of this format of the device; every structure on it carries the id.
    pub uuid: [u8; 16],
    /// Grows with every change; the copy with the larger epoch wins.
    pub epoch: u64,
    /// The layout.
    pub geometry: Geometry,
    /// The volumes.
    pub volumes: Vec<VolumeRecord>,
}

impl Superblock {
    /// A new superblock for a device of `device_size` bytes.
    ///
    /// # Errors
    /// [`Error::DeviceSize`].
    pub fn new(uuid: [u8; 16], device_size: u64) -> Result<Superblock, Error> {
        Ok(Superblock { uuid, epoch: 1, geometry: Geometry::for_device(device_size)?, volumes: Vec::new() })
    }

    /// Reads the newest valid copy; `copies` are the bytes at [`SUPERBLOCK_OFFSETS`], `device_size` what the
    /// device has today.
    ///
    /// # Errors
    /// No valid copy, another version, or a layout that does not fit the device.
    pub fn decode(copies: [&[u8]; 2], device_size: u64) -> Result<Superblock, Error> {
        let _ = (copies, device_size);
        todo!()
    }

    /// The bytes of one copy, always [`SUPERBLOCK_SIZE`] of them.
    pub fn encode(&self) -> Vec<u8> {
        todo!()
    }

    /// Adds a volume under the lowest free id and gives the id.
    ///
    /// # Errors
    /// [`Error::Volume`] if the name is taken, empty or too long, or all ids are in use.
    pub fn add_volume(&mut self, name: &str, origin_size: u64, origin_identity: &str) -> Result<VolumeId, Error> {
        let _ = (name, origin_size, origin_identity);
        todo!()
    }

    /// The volume of a name.
    pub fn volume(&self, name: &str) -> Option<&VolumeRecord> {
        self.volumes.iter().find(|volume| volume.name == name)
    }
}
