//! What a device, or the driver's memory, may be asked for.

use kickcache_engine::device::{Device, DeviceOperation, Piece};
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent, SECTOR_SIZE};

use crate::host::{Devices, Host, InFlight};
use crate::memory::Access;
use crate::subject::Subject;

/// The memory that an operation uses while it is in flight, and how.
pub(super) fn memory_of(operation: &DeviceOperation) -> Option<(&[Piece], Access)> {
    match operation {
        DeviceOperation::Read { pieces, .. } => Some((pieces.as_slice(), Access::Target)),
        DeviceOperation::Write { pieces, .. } => Some((pieces.as_slice(), Access::Source)),
        DeviceOperation::WriteMetadata { pieces, .. } => Some((pieces, Access::Source)),
        DeviceOperation::ReadMetadata { .. }
        | DeviceOperation::Flush { .. }
        | DeviceOperation::Discard { .. }
        | DeviceOperation::WriteZeroes { .. }
        | DeviceOperation::NoteOutOfService { .. }
        | DeviceOperation::Copy { .. }
        | DeviceOperation::Zero { .. } => None,
    }
}

/// What a submission in flight uses of its device. Kept apart from the submissions: all are looked at for each new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    id: u64,
    device: Device,
    extent: ByteExtent,
    writes: bool,
}

impl Claim {
    fn clashes(&self, flight: &InFlight) -> bool {
        let both_write = self.writes && flight.writes;
        let one_writes = self.writes || flight.writes;
        self.device == flight.device
            && overlap(self.extent, flight.extent)
            && (both_write || (flight.device == Device::Cache && one_writes))
    }
}

impl<E: Subject> Host<E> {
    /// Checks a submission and takes the memory that it uses.
    pub(super) fn take_in(&mut self, flight: &InFlight, devices: &mut Devices) -> Result<(), String> {
        self.check_border(flight, devices)?;
        self.check_order(flight)?;
        self.claim(flight);
        if let Some((pieces, access)) = memory_of(&flight.operation) {
            self.memory.guard(flight.id, pieces, access)?;
            if access == Access::Target {
                self.memory.spoil(pieces)?;
            }
        }
        Ok(())
    }

    fn check_border(&self, flight: &InFlight, devices: &mut Devices) -> Result<(), String> {
        if let Device::Origin(volume) = flight.device
            && usize::from(volume.get()) >= devices.origins.len()
        {
            return Err(format!("there is no volume {volume:?}"));
        }
        if flight.is_flush || flight.is_note() {
            return Ok(());
        }
        let unit = if flight.device == Device::Cache { BLOCK_SIZE } else { SECTOR_SIZE };
        let device = devices.get(flight.device);
        if !device.allows(flight.extent, unit) {
            let (extent, size) = (flight.extent, device.size());
            return Err(format!("{extent:?} is not on the device ({size} bytes, unit {unit})"));
        }
        if memory_of(&flight.operation).is_some() && flight.extent.length > 64 << 20 {
            return Err(format!("{:?} is longer than any request", flight.extent));
        }
        Ok(())
    }

    /// No two writes in flight overlap, and on the cache device no write overlaps a read in flight.
    fn check_order(&self, flight: &InFlight) -> Result<(), String> {
        if flight.is_flush {
            return Ok(());
        }
        let clashes = |other: &&Claim| other.clashes(flight);
        match self.claims.iter().find(clashes) {
            Some(other) => Err(format!("overlaps {:#x} in flight, {:?}", other.id, other.extent)),
            None => Ok(()),
        }
    }

    /// Notes what a submission on its way uses of its device.
    fn claim(&mut self, flight: &InFlight) {
        let InFlight { id, device, extent, writes, .. } = *flight;
        if !flight.is_flush {
            self.claims.push(Claim { id, device, extent, writes });
        }
    }

    /// A submission ended.
    pub(super) fn release(&mut self, flight: &InFlight) {
        if let Some(place) = self.claims.iter().position(|claim| claim.id == flight.id) {
            self.claims.swap_remove(place);
        }
    }
}

const fn overlap(one: ByteExtent, other: ByteExtent) -> bool {
    one.start < other.start + other.length && other.start < one.start + one.length
}
