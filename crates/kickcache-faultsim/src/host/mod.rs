//! Plays the driver for one life of an engine: executes its submissions on simulated devices and memory.

pub mod bad_spots;
mod border;
mod claim;
mod dropped_blocks;
mod effect;
mod in_flight;
mod mirrored;
mod restart;
mod takeover_errors;

use std::collections::BTreeMap;

use kickcache_engine::device::{
    Checksums, Completion, Data, Device, DeviceError, DeviceOperation, Memory, Submission, SubmissionId,
};
use kickcache_engine::format::geometry::Geometry;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::mirror::Mirror;
use kickcache_engine::mirror::ending::Ending;
use kickcache_engine::mirror::side::Side;
use kickcache_engine::request::{Durability, Reply, Request};
use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::VolumeSet;
use kickcache_random::Random;

use crate::device::SimulatedDevice;
use crate::host::bad_spots::BadSpots;
use crate::host::claim::Claim;
use crate::host::dropped_blocks::DroppedBlocks;
use crate::host::in_flight::{InFlight, Progress};
use crate::host::takeover_errors::TakeoverErrors;
use crate::memory::DriverMemory;
use crate::operation::{describe, durability_of, kind, memory_of, metadata_part};
use crate::payload::Payload;
use crate::plan::Plan;
use crate::plan::aim::Aim;
use crate::plan::faults::{Faults, Outage, Trouble};
use crate::plan::latency::{Latency, SlowPart};
use crate::queue::{Event, Queue};
use crate::report::Injected;
use crate::subject::Subject;
use crate::trace::Trace;

/// The duration of a submission that hangs.
const HANG: Duration = Duration::from_millis(30_000);

/// The devices of a run; they outlive every engine.
#[derive(Clone, Debug)]
pub struct Devices {
    pub cache: SimulatedDevice,
    pub successor: Option<SimulatedDevice>,
    pub redo: Option<SimulatedDevice>,
    /// The origins, by the number of their volume.
    pub origins: Vec<SimulatedDevice>,
    /// The host's record: the cache device is out of service, and these volumes may depend on it.
    pub noted: Option<VolumeSet>,
}

impl Devices {
    fn get(&mut self, device: Device) -> &mut SimulatedDevice {
        match device {
            Device::Cache => &mut self.cache,
            Device::Successor => self.successor.as_mut().expect("it is there while it is mirrored to"),
            Device::RedoJournal => self.redo.as_mut().expect("the engine has a redo journal"),
            Device::Origin(volume) => &mut self.origins[usize::from(volume.get())],
        }
    }
}

pub struct Surroundings<'a> {
    pub now: Instant,
    pub devices: &'a mut Devices,
    pub queue: &'a mut Queue,
    pub trace: &'a mut Trace,
    pub injected: &'a mut Injected,
    pub faulty: bool,
    /// Whether the engine serves: recovery is over.
    pub phase_is_running: bool,
}

/// One life of an engine with its driver.
pub struct Host<E> {
    pub engine: E,
    pub memory: DriverMemory,
    /// Submissions in flight, except those on the successor, by the lower half of their ids.
    in_flight: Vec<Option<InFlight>>,
    /// Submissions in flight on the successor.
    twins: BTreeMap<u64, InFlight>,
    mirror: Option<Mirror>,
    takeover: TakeoverErrors,
    claims: Vec<Claim>,
    random: Random,
    cache_latency: Latency,
    slow_part: Option<SlowPart>,
    origin_latency: Latency,
    faults: Faults,
    plan_faults: Faults,
    outages: Vec<Outage>,
    /// Where blocks of batches were to be stored, in plans that lose or misplace such blocks.
    places: Vec<u64>,
    bad_spots: BadSpots,
    /// The size of the engine's tables when it was opened, or had grown.
    memory_bytes: u64,
    is_growing: bool,
    pool_pages: u32,
    checks_every: u64,
    steps: u64,
    /// Whether origins are servers of their own.
    is_remote: bool,
    aim: Aim,
    aimed: u64,
    forgotten: DroppedBlocks,
    geometry: Geometry,
}

fn place_of(id: u64) -> usize {
    usize::try_from(id & u64::from(u32::MAX)).expect("32 bits fit a usize")
}

impl<E: Subject> Host<E> {
    pub fn new(engine: E, plan: &Plan, mut random: Random, now: Instant) -> Host<E> {
        let volumes = u8::try_from(plan.origin_sizes.len()).expect("few volumes");
        Host {
            memory_bytes: engine.status().memory_bytes,
            is_growing: false,
            pool_pages: plan.settings.pool_pages,
            engine,
            memory: DriverMemory::new(plan.settings.pool_pages),
            in_flight: Vec::new(),
            twins: BTreeMap::new(),
            mirror: None,
            takeover: TakeoverErrors::default(),
            claims: Vec::new(),
            outages: plan.faults.draw_outages(now, volumes, &mut random),
            random,
            cache_latency: plan.cache_latency,
            slow_part: plan.slow_part,
            origin_latency: plan.origin_latency,
            faults: plan.faults,
            plan_faults: plan.faults,
            places: Vec::new(),
            bad_spots: BadSpots::default(),
            checks_every: plan.checks_every,
            steps: 0,
            is_remote: plan.restart_after.is_some(),
            aim: plan.ends.aim,
            aimed: 0,
            forgotten: DroppedBlocks::default(),
            geometry: Geometry::for_device(plan.cache_size).expect("plans have cache devices that can be"),
        }
    }

    /// The number of submissions so far of the kind that crashes wait for; always 0 for [`Aim::Anything`],
    /// [`Aim::Complete`] and [`Aim::Drained`].
    pub fn aimed(&self) -> u64 {
        self.aimed
    }

    /// The trouble of the device at a time, or within the span before it.
    pub fn trouble(&self, device: Device, now: Instant, span: Duration) -> Option<Trouble> {
        let was_lately = |outage: &&Outage| outage.from <= now && now < outage.until.plus(span);
        self.outages
            .iter()
            .filter(|outage| outage.device == device)
            .find(was_lately)
            .map(|outage| outage.trouble)
    }

    pub fn set_faults(&mut self, faults: Faults, outages: Vec<Outage>) {
        (self.faults, self.outages) = (faults, outages);
    }

    pub fn bad_spots(&mut self) -> &mut BadSpots {
        &mut self.bad_spots
    }

    pub fn in_flight_count(&self) -> usize {
        self.in_flight.iter().flatten().count() + self.twins.len()
    }

    pub fn in_flight_text(&self) -> String {
        let text = |flight: &InFlight| format!("{:#x}: {}", flight.id, describe(&flight.operation));
        self.in_flight.iter().flatten().map(text).collect::<Vec<_>>().join("; ")
    }

    pub fn request(&mut self, now: Instant, request: Request<'_>, payload: Payload) {
        self.memory.insert(request.id, payload);
        self.bad_spots.count_request();
        self.engine.handle_request(now, request);
    }

    /// Starts the pending submissions of the engine, which a mirror may hold back, and returns the pending replies.
    ///
    /// # Errors
    /// If the engine submits an operation that is not allowed, or a check of the engine fails.
    pub fn pump(&mut self, around: &mut Surroundings<'_>) -> Result<Vec<Reply>, String> {
        let mut replies = Vec::new();
        while let Some(submission) = self.engine.poll_submission() {
            match &mut self.mirror {
                Some(mirror) => mirror.handle_submission(submission),
                None => self.submit(Side::Old, submission, around)?,
            }
        }
        while let Some(routed) = self.mirror.as_mut().and_then(Mirror::poll_submission) {
            self.submit(routed.side, routed.submission, around)?;
        }
        while let Some(reply) = self.engine.poll_reply() {
            replies.push(reply);
        }
        self.steps += 1;
        if self.steps.is_multiple_of(self.checks_every) {
            self.check()?;
        }
        Ok(replies)
    }

    /// The cache device grows; its superblock is yet to be written.
    ///
    /// # Errors
    /// If the engine refuses.
    pub fn grow(&mut self, now: Instant, superblock: &Superblock) -> Result<(), String> {
        self.is_growing = true;
        self.engine.grow(now, superblock).map_err(|error| error.to_string())
    }

    pub fn use_grown(&mut self, now: Instant) {
        self.engine.use_grown(now);
        self.memory_bytes = self.engine.status().memory_bytes;
        self.is_growing = false;
    }

    /// Fails if the engine's tables have changed their size without a growth, or no page of the pool is free; panics if
    /// the cache metadata is inconsistent.
    fn check(&self) -> Result<(), String> {
        self.engine.check();
        let memory = self.engine.status().memory_bytes;
        let pages = self.engine.pool_pages_used();
        let has_grown = memory != self.memory_bytes && !self.is_growing;
        if has_grown || pages >= self.pool_pages {
            return Err(format!(
                "{memory} bytes of tables, {} at first; {pages} pages in use",
                self.memory_bytes
            ));
        }
        Ok(())
    }

    fn submit_to_cache(
        &mut self,
        submission: Submission,
        around: &mut Surroundings<'_>,
    ) -> Result<(), String> {
        self.submit(Side::Old, submission, around)
    }

    fn submit(
        &mut self,
        side: Side,
        submission: Submission,
        around: &mut Surroundings<'_>,
    ) -> Result<(), String> {
        let Submission { id, operation } = submission;
        let mut flight = InFlight::new(id.as_u64(), operation);
        let (id, extent) = (flight.id, flight.extent);
        match side {
            Side::Old => self.count_aimed(&flight),
            Side::New => flight.device = Device::Successor,
        }
        let numbers = [id, kind(&flight.operation), extent.start, extent.length];
        around
            .trace
            .record(around.now, &numbers, || format!("submit {id:#x}: {}", describe(&flight.operation)));
        if let Some((to, checksums)) = self.move_memory(&flight.operation)? {
            if checksums == Checksums::Compute {
                flight.checksums = vec![self.memory.page_checksum(to)?];
                flight.progress = Progress::Done;
                let delay = Duration::from_nanos(self.random.below(20_000));
                around.queue.push(around.now.plus(delay), Event::Complete(id));
                self.put_flight(flight);
            }
            return Ok(());
        }
        self.take_in(&flight, around.devices)
            .map_err(|error| format!("submission {id:#x}, {}: {error}", describe(&flight.operation)))?;
        if flight.is_flush {
            flight.progress = Progress::Flushing(around.devices.get(flight.device).start_flush());
        }
        self.schedule(&flight, around);
        self.put_flight(flight);
        Ok(())
    }

    fn count_aimed(&mut self, flight: &InFlight) {
        if self.aim == Aim::Anything {
            return;
        }
        if self.aim == Aim::Forgotten {
            self.forgotten.on_submit(flight.id, &flight.operation, &self.geometry);
            return;
        }
        let is_aimed = match self.aim {
            Aim::OriginFlush => flight.is_flush && matches!(flight.device, Device::Origin(_)),
            aim => metadata_part(&flight.operation, &self.geometry) == Some(aim),
        };
        self.aimed += u64::from(is_aimed);
    }

    /// Whether a write of an origin ended while a power cut may restore an older copy of its block.
    fn is_over_forgotten(&self, flight: &InFlight) -> bool {
        let Device::Origin(volume) = flight.device else { return false };
        flight.writes && self.forgotten.overlaps(volume, flight.extent)
    }

    fn put_flight(&mut self, flight: InFlight) {
        if flight.device == Device::Successor {
            let before = self.twins.insert(flight.id, flight);
            return assert!(before.is_none(), "a submission's id is in use");
        }
        let place = place_of(flight.id);
        if place >= self.in_flight.len() {
            self.in_flight.resize(place + 1, None);
        }
        assert!(self.in_flight[place].is_none(), "a submission's id is in use");
        self.in_flight[place] = Some(flight);
    }

    fn take_flight(&mut self, id: u64) -> Result<InFlight, String> {
        if let Some(flight) = self.twins.remove(&id) {
            return Ok(flight);
        }
        let flight = self.in_flight.get_mut(place_of(id)).and_then(Option::take);
        flight.filter(|flight| flight.id == id).ok_or_else(|| format!("submission {id:#x} vanished"))
    }

    /// Copies or zeroes memory at once; `None` for any other operation.
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
            | DeviceOperation::NoteOutOfService { .. }
            | DeviceOperation::WriteZeroes { .. } => Ok(None),
        }
    }

    fn schedule(&mut self, flight: &InFlight, around: &mut Surroundings<'_>) {
        let (latency, hang) = match flight.device {
            Device::Cache if flight.is_note() => (self.origin_latency, 0),
            Device::Cache => (self.cache_latency, self.faults.cache.hang),
            Device::Successor => (self.cache_latency, self.faults.cache.hang.max(self.faults.successor.hang)),
            Device::Origin(_) | Device::RedoJournal => (self.origin_latency, self.faults.origin.hang),
        };
        let mut time = latency.draw(&mut self.random, flight.extent.length);
        if around.faulty && hang > 0 && self.random.below(10_000) < hang {
            time = HANG;
            around.injected.hangs += 1;
        }
        for outage in self.outages.iter().filter(|outage| around.faulty && outage.trouble == Trouble::Silent)
        {
            if outage.device == flight.device && outage.is_at(around.now) && !flight.is_note() {
                time = time.max(outage.until.since(around.now));
            }
        }
        if let Some(slow) = self.slow_part
            && metadata_part(&flight.operation, &self.geometry) == Some(slow.part)
        {
            time = Duration::from_nanos(time.as_nanos() + slow.draw(&mut self.random).as_nanos());
        }
        let applied = Duration::from_nanos(self.random.within(0, time.as_nanos()));
        around.queue.push(around.now.plus(applied), Event::Apply(flight.id));
        around.queue.push(around.now.plus(time), Event::Complete(flight.id));
    }

    /// Ends a submission and reports its completion to the engine, or to the mirror.
    ///
    /// # Errors
    /// If its memory was released, it is not in flight, or it has not taken effect.
    pub fn complete(&mut self, id: u64, around: &mut Surroundings<'_>) -> Result<(), String> {
        if self.is_remote {
            self.carry_out_late(id, around)?;
        }
        let mut flight = self.take_flight(id)?;
        self.release(&flight);
        let result = self.end(&flight, around)?;
        if let DeviceOperation::Read { pieces, checksums: Checksums::Compute, .. } = &flight.operation {
            self.memory.checksums(pieces.as_slice(), &mut flight.checksums)?;
        }
        if let Some((pieces, _)) = memory_of(&flight.operation) {
            self.memory.release(id, pieces);
        }
        if self.aim == Aim::Forgotten && result.is_ok() {
            self.aimed += u64::from(self.is_over_forgotten(&flight));
            self.forgotten.on_end(id);
        }
        let failed = u64::from(result.is_err());
        around.trace.record(around.now, &[id, 100 + failed], || format!("complete {id:#x}: {result:?}"));
        self.takeover.on_end(&flight, result);
        self.tell_engine(around.now, &flight, result);
        Ok(())
    }

    fn tell_engine(&mut self, now: Instant, flight: &InFlight, result: Result<(), DeviceError>) {
        let id = SubmissionId::from_u64(flight.id);
        let mirror = self.mirror.as_mut();
        match mirror.map_or(Ending::Passed, |mirror| mirror.handle_end(id, result)) {
            Ending::Awaited => {}
            Ending::Passed => {
                let result = result.map(|()| Data { checksums: &flight.checksums, bytes: &flight.bytes });
                self.engine.handle_completion(now, Completion { id, result });
            }
            Ending::Ended(id, result) => {
                let result = result.map(|()| Data::default());
                self.engine.handle_completion(now, Completion { id, result });
            }
        }
    }

    fn end(
        &mut self,
        flight: &InFlight,
        around: &mut Surroundings<'_>,
    ) -> Result<Result<(), DeviceError>, String> {
        let device = around.devices.get(flight.device);
        match &flight.progress {
            Progress::Wrote(ticket) => {
                let is_discard = matches!(flight.operation, DeviceOperation::Discard { .. });
                let durability = if self.is_remote && is_discard {
                    Durability::Durable
                } else {
                    durability_of(&flight.operation)
                };
                device.complete_write(*ticket, durability);
            }
            Progress::Flushing(ticket) => {
                let rates = self.faults.rates(flight.device);
                let lies = around.faulty && rates.lie > 0 && self.random.below(10_000) < rates.lie;
                around.injected.lies += u64::from(lies);
                if lies { device.lie_about(*ticket) } else { device.complete_flush(*ticket) }
            }
            Progress::Done => {}
            Progress::Failed(error) => {
                let is_durable = durability_of(&flight.operation) == Durability::Durable;
                if self.faults.tells_once && is_durable && matches!(flight.device, Device::Origin(_)) {
                    device.fail_flush_of_all();
                }
                return Ok(Err(*error));
            }
            Progress::Submitted => {
                return Err(format!("submission {:#x} ended before it took effect", flight.id));
            }
        }
        Ok(Ok(()))
    }
}
