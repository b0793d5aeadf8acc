//! Plays the driver for one life of an engine: executes its submissions on simulated devices and memory.

use std::collections::BTreeMap;

use crc_fast::CrcAlgorithm;
use kickcache_engine::device::{
    Checksums, Completion, Data, Device, DeviceError, DeviceOperation, Memory, Submission, SubmissionId,
};
use kickcache_engine::request::{Reply, Request};
use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::{BLOCK_BYTES, BLOCK_SIZE, ByteExtent, Checksum, SECTOR_SIZE};

use crate::random::Random;
use crate::world::device::{FlushTicket, SimulatedDevice, WriteTicket};
use crate::world::memory::{Access, DriverMemory};
use crate::world::operation::{
    describe, device_and_flush, extent_of, is_durable, is_memory_only, is_write, kind,
};
use crate::world::plan::{DeviceFaults, Latency, Plan};
use crate::world::queue::{Event, Queue};
use crate::world::subject::Subject;
use crate::world::trace::Trace;

/// The devices of a world; they outlive every engine.
#[derive(Clone, Debug)]
pub struct Devices {
    /// The cache device.
    pub cache: SimulatedDevice,
    /// The origins, by the number of their volume.
    pub origins: Vec<SimulatedDevice>,
}

impl Devices {
    fn get(&mut self, device: Device) -> &mut SimulatedDevice {
        match device {
            Device::Cache => &mut self.cache,
            Device::Origin(volume) => &mut self.origins[usize::from(volume.get())],
        }
    }
}

/// How far a submission is.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Progress {
    Submitted,
    Wrote(WriteTicket),
    /// A flush or a read.
    Flushing(FlushTicket),
    Done,
    Failed(DeviceError),
}

/// A submission that has not ended.
#[derive(Clone, Debug)]
struct InFlight {
    operation: DeviceOperation,
    progress: Progress,
    checksums: Vec<Checksum>,
    bytes: Vec<u8>,
}

/// What a life may use of its world.
pub struct Surroundings<'a> {
    /// The devices.
    pub devices: &'a mut Devices,
    /// The event queue.
    pub queue: &'a mut Queue,
    /// The record.
    pub trace: &'a mut Trace,
    /// Whether faults are injected.
    pub faulty: bool,
}

/// One life of an engine with its driver.
pub struct Host<E> {
    /// The engine.
    pub engine: E,
    /// The driver's memory.
    pub memory: DriverMemory,
    in_flight: BTreeMap<u64, InFlight>,
    random: Random,
    cache_latency: Latency,
    origin_latency: Latency,
    faults: DeviceFaults,
    checks_every: u64,
    steps: u64,
}

/// CRC32C of some bytes.
pub fn checksum(bytes: &[u8]) -> Checksum {
    let wide = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes);
    Checksum::new(u32::try_from(wide).expect("a 32-bit checksum"))
}

/// The checksums of the whole blocks of a volume that an extent covers.
pub fn checksums_of(extent: ByteExtent, payload: &[u8]) -> Vec<Checksum> {
    let skipped =
        usize::try_from(extent.start.next_multiple_of(BLOCK_SIZE) - extent.start).expect("below 4096");
    let whole = payload.get(skipped..).unwrap_or_default().chunks_exact(BLOCK_BYTES);
    whole.map(checksum).collect()
}

impl<E: Subject> Host<E> {
    /// Starts the life of an engine.
    pub fn new(engine: E, plan: &Plan, random: Random) -> Host<E> {
        Host {
            engine,
            memory: DriverMemory::new(plan.settings.pool_pages),
            in_flight: BTreeMap::new(),
            random,
            cache_latency: plan.cache_latency,
            origin_latency: plan.origin_latency,
            faults: plan.faults,
            checks_every: plan.checks_every,
            steps: 0,
        }
    }

    /// Submissions that have not ended.
    pub fn in_flight_count(&self) -> usize {
        self.in_flight.len()
    }

    /// What is in flight, for a message.
    pub fn in_flight_text(&self) -> String {
        let list: Vec<String> = self
            .in_flight
            .iter()
            .map(|(id, flight)| format!("{id}: {}", describe(&flight.operation)))
            .collect();
        list.join("; ")
    }

    /// Hands a request in.
    pub fn request(&mut self, now: Instant, request: Request<'_>, payload: Vec<u8>) {
        self.memory.insert(request.id, payload);
        self.engine.handle_request(now, request);
    }

    /// Drains what the engine wants; gives the replies.
    ///
    /// # Errors
    /// If the engine asks for something that no device may be asked for.
    pub fn pump(&mut self, now: Instant, around: &mut Surroundings<'_>) -> Result<Vec<Reply>, String> {
        let mut replies = Vec::new();
        while let Some(submission) = self.engine.poll_submission() {
            self.submit(now, submission, around)?;
        }
        while let Some(reply) = self.engine.poll_reply() {
            replies.push(reply);
        }
        self.steps += 1;
        if self.steps.is_multiple_of(self.checks_every) {
            self.engine.check();
        }
        Ok(replies)
    }

    fn submit(
        &mut self,
        now: Instant,
        submission: Submission,
        around: &mut Surroundings<'_>,
    ) -> Result<(), String> {
        let Submission { id, operation } = submission;
        let id = id.as_u64();
        let numbers = [id, kind(&operation), extent_of(&operation).start, extent_of(&operation).length];
        around.trace.record(now, &numbers, || format!("submit {id}: {}", describe(&operation)));
        if self.in_flight.contains_key(&id) {
            return Err(format!("submission {id} is in flight already"));
        }
        if let Some((to, checksums)) = self.move_memory(&operation)? {
            if checksums == Checksums::Compute {
                let checksums = vec![checksum(self.memory.page(to)?)];
                let flight = InFlight { operation, progress: Progress::Done, checksums, bytes: Vec::new() };
                self.in_flight.insert(id, flight);
                let delay = Duration::from_nanos(self.random.below(20_000));
                around.queue.push(now.plus(delay), Event::Complete(id));
            }
            return Ok(());
        }
        self.take_in(id, &operation, around.devices)
            .map_err(|error| format!("submission {id}, {}: {error}", describe(&operation)))?;
        let progress = match device_and_flush(&operation) {
            (device, true) => Progress::Flushing(around.devices.get(device).start_flush()),
            (_, false) => Progress::Submitted,
        };
        let flight = InFlight { operation, progress, checksums: Vec::new(), bytes: Vec::new() };
        self.schedule(now, id, &flight, around);
        self.in_flight.insert(id, flight);
        Ok(())
    }

    /// Copies and zeroes at once; gives where to, and whether a checksum is wanted.
    fn move_memory(&mut self, operation: &DeviceOperation) -> Result<Option<(Memory, Checksums)>, String> {
        match operation {
            DeviceOperation::Copy { from, to, length, checksums } => {
                self.memory.copy(*from, *to, *length)?;
                Ok(Some((*to, *checksums)))
            }
            DeviceOperation::Zero { to, length, checksums } => {
                self.memory.zero(*to, *length)?;
                Ok(Some((*to, *checksums)))
            }
            DeviceOperation::Read { .. }
            | DeviceOperation::Write { .. }
            | DeviceOperation::WriteMetadata { .. }
            | DeviceOperation::ReadMetadata { .. }
            | DeviceOperation::Flush { .. }
            | DeviceOperation::Discard { .. }
            | DeviceOperation::WriteZeroes { .. } => Ok(None),
        }
    }

    fn take_in(&mut self, id: u64, operation: &DeviceOperation, devices: &mut Devices) -> Result<(), String> {
        self.check_border(operation, devices)?;
        self.check_order(operation)?;
        self.take_memory(id, operation)
    }

    fn check_border(&self, operation: &DeviceOperation, devices: &mut Devices) -> Result<(), String> {
        let (device, is_flush) = device_and_flush(operation);
        let unit = if device == Device::Cache { BLOCK_SIZE } else { SECTOR_SIZE };
        let extent = extent_of(operation);
        if let Device::Origin(volume) = device
            && usize::from(volume.get()) >= devices.origins.len()
        {
            return Err(format!("there is no volume {volume:?}"));
        }
        let size = devices.get(device).size();
        if !is_flush && !devices.get(device).allows(extent, unit) {
            return Err(format!("{extent:?} is not on the device ({size} bytes, unit {unit})"));
        }
        Ok(())
    }

    /// No two writes in flight overlap, and on the cache device no write overlaps a read in flight.
    fn check_order(&self, operation: &DeviceOperation) -> Result<(), String> {
        let (device, is_flush) = device_and_flush(operation);
        if is_flush {
            return Ok(());
        }
        let extent = extent_of(operation);
        for (id, flight) in &self.in_flight {
            if is_memory_only(&flight.operation) {
                continue;
            }
            let (other_device, other_flush) = device_and_flush(&flight.operation);
            if other_flush || other_device != device || !extent_of(&flight.operation).overlaps(extent) {
                continue;
            }
            let (writes, other_writes) = (is_write(operation), is_write(&flight.operation));
            let reads_allowed = device != Device::Cache;
            if (writes && other_writes) || (!reads_allowed && (writes || other_writes)) {
                return Err(format!("overlaps {id} in flight: {}", describe(&flight.operation)));
            }
        }
        Ok(())
    }

    fn take_memory(&mut self, id: u64, operation: &DeviceOperation) -> Result<(), String> {
        match operation {
            DeviceOperation::Read { pieces, .. } => {
                self.check_length(extent_of(operation).length)?;
                self.memory.guard(id, pieces.as_slice(), Access::Target)?;
                let junk = vec![0x5A; usize::try_from(pieces.length()).expect("fits memory")];
                self.memory.scatter(pieces.as_slice(), &junk)
            }
            DeviceOperation::Write { pieces, .. } => self.memory.guard(id, pieces.as_slice(), Access::Source),
            DeviceOperation::WriteMetadata { pieces, .. } => self.memory.guard(id, pieces, Access::Source),
            DeviceOperation::ReadMetadata { .. }
            | DeviceOperation::Flush { .. }
            | DeviceOperation::Discard { .. }
            | DeviceOperation::WriteZeroes { .. }
            | DeviceOperation::Copy { .. }
            | DeviceOperation::Zero { .. } => Ok(()),
        }
    }

    fn check_length(&self, length: u64) -> Result<(), String> {
        if length > 64 << 20 { Err(format!("{length} bytes are more than any request has")) } else { Ok(()) }
    }

    fn schedule(&mut self, now: Instant, id: u64, flight: &InFlight, around: &mut Surroundings<'_>) {
        let latency = match device_and_flush(&flight.operation).0 {
            Device::Cache => self.cache_latency,
            Device::Origin(_) => self.origin_latency,
        };
        let time = latency.draw(&mut self.random, extent_of(&flight.operation).length);
        let applied = Duration::from_nanos(self.random.within(0, time.as_nanos()));
        around.queue.push(now.plus(applied), Event::Apply(id));
        around.queue.push(now.plus(time), Event::Complete(id));
    }

    /// Lets a submission take effect on its device.
    ///
    /// # Errors
    /// If its memory is gone.
    pub fn apply(&mut self, id: u64, around: &mut Surroundings<'_>) -> Result<(), String> {
        let Some(mut flight) = self.in_flight.remove(&id) else {
            return Err(format!("submission {id} vanished"));
        };
        let failure = if around.faulty { self.draw_failure(&flight.operation) } else { None };
        let result = match failure {
            Some(error) => self.apply_failed(&mut flight, error, around.devices),
            None => self.apply_well(&mut flight, around),
        };
        self.in_flight.insert(id, flight);
        result
    }

    fn draw_failure(&mut self, operation: &DeviceOperation) -> Option<DeviceError> {
        let permyriad = self.faults.permyriad(operation);
        (self.random.below(10_000) < permyriad).then_some(DeviceError::Io)
    }

    /// A failed write stores some of its sectors; a failed flush lets go of what it covered, or not.
    fn apply_failed(
        &mut self,
        flight: &mut InFlight,
        error: DeviceError,
        devices: &mut Devices,
    ) -> Result<(), String> {
        let extent = extent_of(&flight.operation);
        let device = devices.get(device_and_flush(&flight.operation).0);
        if let Some(data) = self.data_of(&flight.operation)? {
            device.write_torn(extent.start, &data, SECTOR_SIZE, &mut self.random);
        }
        // An origin that forgets what it acknowledged leaves nothing that could be done about writes around the log.
        if let Progress::Flushing(ticket) = &flight.progress
            && self.faults.flush_forgets
            && matches!(flight.operation, DeviceOperation::Flush { device: Device::Cache })
        {
            device.fail_flush(ticket);
        }
        flight.progress = Progress::Failed(error);
        Ok(())
    }

    fn apply_well(&mut self, flight: &mut InFlight, around: &mut Surroundings<'_>) -> Result<(), String> {
        let (device, _) = device_and_flush(&flight.operation);
        let extent = extent_of(&flight.operation);
        let data = self.data_of(&flight.operation)?;
        let target = around.devices.get(device);
        match &flight.operation {
            DeviceOperation::Read { pieces, .. } => {
                if around.faulty
                    && device == Device::Cache
                    && self.random.below(10_000) < self.faults.flip_permyriad
                {
                    target.flip_bit(extent, &mut self.random);
                }
                self.memory.scatter(pieces.as_slice(), target.bytes(extent))?;
            }
            DeviceOperation::ReadMetadata { .. } => flight.bytes = target.bytes(extent).to_vec(),
            DeviceOperation::Write { .. }
            | DeviceOperation::WriteMetadata { .. }
            | DeviceOperation::WriteZeroes { .. }
            | DeviceOperation::Discard { .. } => {
                if let Some(data) = data {
                    flight.progress = Progress::Wrote(target.write(extent.start, data));
                    return Ok(());
                }
            }
            DeviceOperation::Flush { .. } => return Ok(()),
            DeviceOperation::Copy { .. } | DeviceOperation::Zero { .. } => {}
        }
        flight.progress = Progress::Done;
        Ok(())
    }

    /// The bytes that a submission stores, if it stores any.
    fn data_of(&mut self, operation: &DeviceOperation) -> Result<Option<Vec<u8>>, String> {
        let zeroes = |extent: &ByteExtent| vec![0; usize::try_from(extent.length).expect("fits memory")];
        match operation {
            DeviceOperation::Write { pieces, .. } => Ok(Some(self.memory.gather(pieces.as_slice())?)),
            DeviceOperation::WriteMetadata { bytes, pieces, .. } => {
                let mut data = bytes.to_vec();
                data.extend(self.memory.gather(pieces)?);
                Ok(Some(data))
            }
            DeviceOperation::WriteZeroes { extent, .. } => Ok(Some(zeroes(extent))),
            // Devices zero what is discarded, or do nothing.
            DeviceOperation::Discard { extent, .. } => Ok(self.random.chance(500).then(|| zeroes(extent))),
            DeviceOperation::Read { .. }
            | DeviceOperation::ReadMetadata { .. }
            | DeviceOperation::Flush { .. }
            | DeviceOperation::Copy { .. }
            | DeviceOperation::Zero { .. } => Ok(None),
        }
    }

    /// Ends a submission and tells the engine.
    ///
    /// # Errors
    /// If its memory is gone.
    pub fn complete(&mut self, now: Instant, id: u64, around: &mut Surroundings<'_>) -> Result<(), String> {
        let mut flight = self.in_flight.remove(&id).ok_or_else(|| format!("submission {id} vanished"))?;
        let device = around.devices.get(device_and_flush(&flight.operation).0);
        let result = match &flight.progress {
            Progress::Wrote(ticket) => {
                device.complete_write(*ticket, is_durable(&flight.operation));
                Ok(())
            }
            Progress::Flushing(ticket) => {
                device.complete_flush(ticket);
                Ok(())
            }
            Progress::Done => Ok(()),
            Progress::Failed(error) => Err(*error),
            Progress::Submitted => return Err(format!("submission {id} ended before it took effect")),
        };
        if let DeviceOperation::Read { pieces, checksums: Checksums::Compute, .. } = &flight.operation {
            let bytes = self.memory.gather(pieces.as_slice())?;
            flight.checksums = bytes.chunks(BLOCK_BYTES).map(checksum).collect();
        }
        self.memory.release(id);
        let failed = u64::from(result.is_err());
        around.trace.record(now, &[id, 100 + failed], || format!("complete {id}: {result:?}"));
        let result = result.map(|()| Data { checksums: &flight.checksums, bytes: &flight.bytes });
        self.engine.handle_completion(now, Completion { id: SubmissionId::from_u64(id), result });
        Ok(())
    }

    /// Ends the life: what is in flight takes effect, does not, or tears.
    pub fn kill(mut self, devices: &mut Devices) {
        let flights: Vec<InFlight> = std::mem::take(&mut self.in_flight).into_values().collect();
        for flight in flights.iter().filter(|flight| flight.progress == Progress::Submitted) {
            let Ok(Some(data)) = self.data_of(&flight.operation) else {
                continue;
            };
            let device = devices.get(device_and_flush(&flight.operation).0);
            let start = extent_of(&flight.operation).start;
            match self.random.below(3) {
                0 => {}
                1 => device.write_torn(start, &data, SECTOR_SIZE, &mut self.random),
                _ => {
                    device.write(start, data);
                }
            }
        }
        devices.cache.complete_all();
        devices.origins.iter_mut().for_each(SimulatedDevice::complete_all);
    }
}
