//! What a device, or the driver's memory, may be asked for.

use kickcache_engine::device::{Device, DeviceOperation, Piece};
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent, SECTOR_SIZE};

use crate::world::host::{Devices, Host, InFlight};
use crate::world::memory::Access;
use crate::world::operation::{describe, is_memory_only};
use crate::world::subject::Subject;

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
        | DeviceOperation::Copy { .. }
        | DeviceOperation::Zero { .. } => None,
    }
}

impl<E: Subject> Host<E> {
    /// Checks a submission and takes the memory that it uses.
    pub(super) fn take_in(&mut self, flight: &InFlight, devices: &mut Devices) -> Result<(), String> {
        self.check_border(flight, devices)?;
        self.check_order(flight)?;
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
        if flight.is_flush {
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
        let reads_allowed = flight.device != Device::Cache;
        let clashes = |other: &&InFlight| {
            let is_same = other.device == flight.device && !other.is_flush;
            is_same
                && overlap(other.extent, flight.extent)
                && !is_memory_only(&other.operation)
                && ((flight.writes && other.writes) || (!reads_allowed && (flight.writes || other.writes)))
        };
        match self.in_flight.iter().flatten().find(clashes) {
            Some(other) => Err(format!("overlaps {} in flight: {}", other.id, describe(&other.operation))),
            None => Ok(()),
        }
    }
}

const fn overlap(one: ByteExtent, other: ByteExtent) -> bool {
    one.start < other.start + other.length && other.start < one.start + one.length
}
