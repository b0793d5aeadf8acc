//! Checks submissions: the operations that the engine may submit to a device or to the driver's memory.

use kickcache_engine::device::Device;
use kickcache_engine::units::{BLOCK_SIZE, SECTOR_SIZE};

use crate::host::claim::Claim;
use crate::host::in_flight::InFlight;
use crate::host::{Devices, Host};
use crate::memory::MemoryAccess;
use crate::operation::memory_of;
use crate::subject::Subject;

impl<E: Subject> Host<E> {
    /// Checks and records a submission; memory that it fills gets arbitrary bytes.
    pub(super) fn take_in(&mut self, flight: &InFlight, devices: &mut Devices) -> Result<(), String> {
        self.check_border(flight, devices)?;
        self.check_order(flight)?;
        self.claim(flight);
        if let Some((pieces, access)) = memory_of(&flight.operation) {
            self.memory.guard(flight.id, pieces, access)?;
            if access == MemoryAccess::Target {
                self.memory.scramble(pieces)?;
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
        let unit = match flight.device {
            Device::Cache | Device::Successor | Device::RedoJournal => BLOCK_SIZE,
            Device::Origin(_) => SECTOR_SIZE,
        };
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

    /// Refuses a submission if two writes on one device would overlap, or a write and a read on the cache
    /// device.
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

    fn claim(&mut self, flight: &InFlight) {
        if !flight.is_flush {
            self.claims.push(Claim::new(flight));
        }
    }

    pub(super) fn release(&mut self, flight: &InFlight) {
        if let Some(place) = self.claims.iter().position(|claim| claim.id == flight.id) {
            self.claims.swap_remove(place);
        }
    }
}
