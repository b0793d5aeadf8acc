//! The server of an origin dies and is restarted: it may have lost unflushed data, and the driver submits all
//! operations in flight again.

use kickcache_engine::device::Device;
use kickcache_engine::request::Durability;
use kickcache_engine::units::VolumeId;

use crate::host::in_flight::Progress;
use crate::host::{Host, Surroundings};
use crate::subject::Subject;

impl<E: Subject> Host<E> {
    /// The engine learns of the restart before any submission to the new server completes.
    ///
    /// # Errors
    /// If the memory of a submission was released, or an operation in flight cannot be found.
    pub fn restart_origin(
        &mut self,
        volume: VolumeId,
        unit: u64,
        around: &mut Surroundings<'_>,
    ) -> Result<(), String> {
        let device = Device::Origin(volume);
        let origin = around.devices.get(device);
        around.injected.restarts += 1;
        around.injected.restart_writes += origin.volatile_writes();
        origin.cut_power(unit, &mut self.random);
        let status = self.engine.status();
        let unflushed = status.volumes.iter().filter(|found| found.volume == volume);
        around.injected.restart_blocks += unflushed.map(|found| found.unflushed_blocks).sum::<u64>();
        self.engine.origin_restarted(around.now, volume);
        let in_flight = self.in_flight.iter().flatten().filter(|flight| flight.device == device);
        let begun: Vec<u64> = in_flight
            .filter(|flight| flight.progress != Progress::Submitted)
            .map(|flight| flight.id)
            .collect();
        begun.into_iter().try_for_each(|id| self.repeat(id, around))
    }

    fn repeat(&mut self, id: u64, around: &mut Surroundings<'_>) -> Result<(), String> {
        let mut flight = self.take_flight(id)?;
        around.injected.repeated += 1;
        flight.is_repeated = true;
        flight.progress = Progress::Submitted;
        let result = if flight.is_flush {
            flight.progress = Progress::Flushing(around.devices.get(flight.device).start_flush());
            Ok(())
        } else {
            self.apply_well(&mut flight, around)
        };
        self.put_flight(flight);
        result
    }

    /// Executes some repeated writes on the old server after the new server has executed them, because the
    /// old server may live on for a while.
    pub(super) fn carry_out_late(&mut self, id: u64, around: &mut Surroundings<'_>) -> Result<(), String> {
        let flight = self.take_flight(id)?;
        if flight.is_repeated
            && flight.writes
            && self.random.chance(300)
            && let Some(data) = self.data_of(&flight.operation)?
        {
            let origin = around.devices.get(flight.device);
            let ticket = origin.write(flight.extent.start, data);
            origin.complete_write(ticket, Durability::Volatile);
        }
        self.put_flight(flight);
        Ok(())
    }
}
