//! The effect of a submission on its device: the whole effect, a part, another effect, or none.

use kickcache_engine::device::{Device, DeviceError, DeviceOperation};
use kickcache_engine::request::Durability;
use kickcache_engine::units::{BLOCK_BYTES, BLOCK_SIZE, ByteExtent, VolumeId};

use crate::content::Block;
use crate::device::SimulatedDevice;
use crate::host::in_flight::{InFlight, Progress};
use crate::host::{Devices, Host, Surroundings};
use crate::index::index;
use crate::operation::{durability_of, metadata_part};
use crate::payload::Payload;
use crate::plan::aim::Aim;
use crate::subject::Subject;

fn reads(operation: &DeviceOperation) -> bool {
    matches!(operation, DeviceOperation::Read { .. } | DeviceOperation::ReadMetadata { .. })
}

impl<E: Subject> Host<E> {
    /// # Errors
    /// If its memory was released, it is not in flight, or too many reads of bad spots have failed.
    pub fn apply(&mut self, id: u64, around: &mut Surroundings<'_>) -> Result<(), String> {
        let mut flight = self.take_flight(id)?;
        let failure = if around.faulty { self.draw_failure(&flight, around) } else { None };
        let is_bad_spot =
            flight.device == Device::Cache && self.bad_spots.meets(&flight.operation, flight.extent);
        if is_bad_spot {
            self.bad_spots.count_failed(around.now)?;
        }
        let device = around.devices.get(flight.device);
        let is_unreadable = is_bad_spot || reads(&flight.operation) && !device.can_read(flight.extent);
        let failure = failure.or_else(|| is_unreadable.then_some(DeviceError::Io));
        let result = match failure {
            Some(error) => self.apply_failed(&mut flight, error, around),
            None => self.apply_well(&mut flight, around),
        };
        self.put_flight(flight);
        result
    }

    fn draw_failure(&mut self, flight: &InFlight, around: &Surroundings<'_>) -> Option<DeviceError> {
        if flight.is_note() {
            return self.faults.draw_failure(flight.device, &flight.operation, &mut self.random);
        }
        let outages = self.outages.iter().filter(|outage| outage.device == flight.device);
        let mut failures = outages.filter(|outage| outage.is_at(around.now));
        if let Some(failure) = failures.find_map(|outage| outage.failure(&flight.operation)) {
            return Some(failure);
        }
        let is_spared = self.faults.spares_journal && flight.device == Device::Cache;
        if is_spared && metadata_part(&flight.operation, &self.geometry).is_some() {
            return None;
        }
        self.faults.draw_failure(flight.device, &flight.operation, &mut self.random)
    }

    /// A failed write may store any of its sectors, none if the device is missing.
    fn apply_failed(
        &mut self,
        flight: &mut InFlight,
        error: DeviceError,
        around: &mut Surroundings<'_>,
    ) -> Result<(), String> {
        if let DeviceOperation::NoteOutOfService { incomplete } = flight.operation
            && self.random.chance(300)
        {
            // The host made the record although the submission failed.
            around.devices.noted = Some(incomplete);
        }
        let device = around.devices.get(flight.device);
        // A part of a failed write that clients may have read survives a restart of a remote origin.
        let durability = match (flight.device, self.is_remote) {
            (Device::Origin(_), true) => Durability::Durable,
            (Device::Origin(_) | Device::Cache | Device::Successor | Device::RedoJournal, _) => {
                Durability::Volatile
            }
        };
        if let Some(data) = self.data_of(&flight.operation)?
            && !matches!(error, DeviceError::Gone | DeviceError::Unsupported)
        {
            device.write_torn(flight.extent.start, &data, durability, &mut self.random);
        }
        let rates = self.faults.rates(flight.device);
        if let Progress::Flushing(ticket) = &flight.progress
            && rates.forgets
            && around.phase_is_running
        {
            match flight.device {
                Device::Cache | Device::Successor | Device::RedoJournal => device.fail_flush(*ticket),
                Device::Origin(_) => device.fail_flush_of_all(),
            }
        }
        around.injected.errors += 1;
        self.aimed += u64::from(self.aim == Aim::Failure);
        self.takeover.on_failed(flight);
        flight.progress = Progress::Failed(error);
        Ok(())
    }

    pub(super) fn apply_well(
        &mut self,
        flight: &mut InFlight,
        around: &mut Surroundings<'_>,
    ) -> Result<(), String> {
        match &flight.operation {
            DeviceOperation::Read { pieces, .. } => {
                if around.faulty && flight.device == Device::Cache {
                    self.rot(flight.extent, around);
                }
                let blocks = around.devices.get(flight.device).blocks();
                self.memory.scatter(pieces.as_slice(), blocks, flight.extent.start)?;
            }
            DeviceOperation::ReadMetadata { .. } => {
                flight.bytes = around.devices.get(flight.device).bytes(flight.extent);
            }
            DeviceOperation::Write { .. }
            | DeviceOperation::WriteMetadata { .. }
            | DeviceOperation::WriteZeroes { .. }
            | DeviceOperation::Discard { .. } => return self.write(flight, around),
            DeviceOperation::Flush { .. } => return Ok(()),
            DeviceOperation::NoteOutOfService { incomplete } => around.devices.noted = Some(*incomplete),
            DeviceOperation::Copy { .. } | DeviceOperation::Zero { .. } => {}
        }
        flight.progress = Progress::Done;
        Ok(())
    }

    fn rot(&mut self, extent: ByteExtent, around: &mut Surroundings<'_>) {
        if self.faults.damage.flip > 0 && self.random.below(10_000) < self.faults.damage.flip {
            around.devices.cache.flip_bit(extent, &mut self.random);
            around.injected.damaged_blocks += 1;
        }
    }

    fn write(&mut self, flight: &mut InFlight, around: &mut Surroundings<'_>) -> Result<(), String> {
        flight.progress = Progress::Done;
        let Some(data) = self.data_of(&flight.operation)? else { return Ok(()) };
        let is_batch = flight.device == Device::Cache && data.blocks.len() > 1;
        if around.faulty && is_batch && self.write_damaged(flight, &data, &mut around.devices.cache) {
            around.injected.damaged_blocks += 1;
            return Ok(());
        }
        let permille = self.faults.bad_spot_permille;
        if around.faulty && is_batch && permille > 0 && self.random.chance(permille) {
            let block = 1 + self.random.index(data.blocks.len() - 1);
            self.bad_spots.add(flight.extent.start + block as u64 * BLOCK_SIZE);
        }
        flight.progress = Progress::Wrote(around.devices.get(flight.device).write(flight.extent.start, data));
        Ok(())
    }

    /// At the rates of the plan, writes a batch except for a single block, which is not stored, or stored in the place
    /// of a block of this or an earlier batch. Returns `false`, without a write, if the batch is not damaged.
    fn write_damaged(&mut self, flight: &InFlight, data: &Payload, cache: &mut SimulatedDevice) -> bool {
        let damage = self.faults.damage;
        let DeviceOperation::WriteMetadata { pieces, .. } = &flight.operation else { return false };
        if pieces.is_empty() || damage.phantom + damage.misdirect == 0 {
            return false;
        }
        let place = |block: usize| flight.extent.start + block as u64 * BLOCK_SIZE;
        self.places.extend((1..data.blocks.len()).map(place));
        let ticket = self.random.below(10_000);
        if ticket >= damage.phantom + damage.misdirect {
            return false;
        }
        let lost = 1 + self.random.index(data.blocks.len() - 1);
        let other = self.places[self.random.index(self.places.len())];
        let durability = durability_of(&flight.operation);
        let mut store = |offset: u64, blocks: &[Block]| {
            if !blocks.is_empty() {
                let length = blocks.len() * BLOCK_BYTES;
                let ticket = cache.write(offset, Payload { skip: 0, length, blocks: blocks.to_vec() });
                cache.complete_write(ticket, durability);
            }
        };
        store(flight.extent.start, &data.blocks[..lost]);
        store(place(lost + 1), &data.blocks[lost + 1..]);
        if ticket < damage.misdirect && other != place(lost) {
            store(other, &data.blocks[lost..=lost]);
        }
        true
    }

    /// The bytes that a submission stores, if it stores any; a discard stores zeroes or no bytes.
    pub(super) fn data_of(&mut self, operation: &DeviceOperation) -> Result<Option<Payload>, String> {
        let zeroes = |extent: &ByteExtent| Payload::new(*extent, |_| Block::Zeroes);
        match operation {
            DeviceOperation::Write { offset, pieces, .. } => {
                let mut data = Payload { skip: index(offset % BLOCK_SIZE), ..Payload::empty() };
                self.memory.gather(pieces.as_slice(), &mut data)?;
                Ok(Some(data))
            }
            DeviceOperation::WriteMetadata { bytes, pieces, .. } => {
                let blocks = bytes.chunks_exact(BLOCK_BYTES);
                let blocks: Vec<Block> =
                    blocks.map(|chunk| Block::from_bytes(chunk.try_into().expect("a block"))).collect();
                let mut data = Payload { skip: 0, length: bytes.len(), blocks };
                self.memory.gather(pieces, &mut data)?;
                Ok(Some(data))
            }
            DeviceOperation::WriteZeroes { extent, .. } => Ok(Some(zeroes(extent))),
            // A remote origin always zeroes here: if it ignored the discard, a restart could change the
            // blocks later by dropping unflushed data.
            DeviceOperation::Discard { extent, .. } => {
                Ok((self.is_remote || self.random.chance(500)).then(|| zeroes(extent)))
            }
            DeviceOperation::Read { .. }
            | DeviceOperation::ReadMetadata { .. }
            | DeviceOperation::Flush { .. }
            | DeviceOperation::NoteOutOfService { .. }
            | DeviceOperation::Copy { .. }
            | DeviceOperation::Zero { .. } => Ok(None),
        }
    }

    /// Ends the life: writes that have not taken effect do so now, have no effect, or tear. Returns the volumes of the
    /// origins that may have dropped writes, because a flush in flight failed.
    pub fn kill(mut self, devices: &mut Devices) -> Vec<VolumeId> {
        let twins = std::mem::take(&mut self.twins).into_values();
        let flights = std::mem::take(&mut self.in_flight).into_iter().flatten();
        let flights: Vec<InFlight> = flights.chain(twins).collect();
        for flight in flights.iter().filter(|flight| flight.progress == Progress::Submitted) {
            let Ok(Some(data)) = self.data_of(&flight.operation) else {
                continue;
            };
            let device = devices.get(flight.device);
            match self.random.below(3) {
                0 => {}
                1 => {
                    let durability = Durability::Volatile;
                    device.write_torn(flight.extent.start, &data, durability, &mut self.random);
                }
                _ => {
                    device.write(flight.extent.start, data);
                }
            }
        }
        devices.cache.complete_all();
        devices.cache.blame_abandoned();
        if let Some(successor) = &mut devices.successor {
            successor.complete_all();
            successor.blame_abandoned();
        }
        devices.redo.iter_mut().chain(&mut devices.origins).for_each(SimulatedDevice::complete_all);
        flights.iter().filter_map(InFlight::forgetful_origin).collect()
    }
}
