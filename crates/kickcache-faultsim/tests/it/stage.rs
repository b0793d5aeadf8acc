//! A small stage for scenarios: one engine on simulated devices, driven step by step.

#![expect(clippy::unwrap_used, reason = "helpers of a test may fail by a panic")]

use std::collections::BTreeMap;

use kickcache_engine::config::{EngineSettings, Mode, RottedLog, SequentialCutoff, VolumeSettings};
use kickcache_engine::engine::{Engine, Phase};
use kickcache_engine::format::geometry::Geometry;
use kickcache_engine::format::superblock::{SUPERBLOCK_OFFSETS, SUPERBLOCK_SIZE, Superblock};
use kickcache_engine::request::{Durability, Errno, Operation, Request, RequestId};
use kickcache_engine::stats::{GrowthPhase, Status};
use kickcache_engine::time::{Duration, Instant, earlier};
use kickcache_engine::units::{BLOCK_BYTES, BLOCK_SIZE, ByteExtent, Generation, VolumeId};
use kickcache_faultsim::content::{Block, Version};
use kickcache_faultsim::device::SimulatedDevice;
use kickcache_faultsim::host::{Devices, Host, Surroundings};
use kickcache_faultsim::payload::Payload;
use kickcache_faultsim::plan::faults::{Faults, Outage};
use kickcache_faultsim::plan::latency::Latency;
use kickcache_faultsim::plan::{Plan, PlanKind};
use kickcache_faultsim::queue::{Event, Queue};
use kickcache_faultsim::report::Injected;
use kickcache_faultsim::subject::Subject;
use kickcache_faultsim::trace::{Printing, Trace};
use kickcache_random::Random;

pub(crate) const VOLUME: VolumeId = VolumeId::new(0);

pub(crate) fn blocks(first: u64, count: u64) -> ByteExtent {
    ByteExtent { start: first * BLOCK_SIZE, length: count * BLOCK_SIZE }
}

type RequestResult = (Result<(), Errno>, Payload);

pub(crate) struct Stage {
    pub(crate) devices: Devices,
    pub(crate) plan: Plan,
    pub(crate) host: Option<Host<Engine>>,
    queue: Queue,
    trace: Trace,
    injected: Injected,
    now: Instant,
    next_id: u32,
    random: Random,
    ended: BTreeMap<RequestId, RequestResult>,
}

const LATENCY: Latency =
    Latency { base: Duration::from_micros(50), mean: Duration::from_micros(20), stall_permille: 0 };

/// The plan of [`Stage::new`], for tests that change it.
pub(crate) fn plan(mode: Mode, seed: u64) -> Plan {
    let mut plan = Plan::draw(PlanKind::Any, &mut Random::new(seed));
    plan.cache_size = 8 << 20;
    plan.origin_sizes = vec![16 << 20];
    plan.volumes = vec![VolumeSettings {
        mode,
        sequential_cutoff: SequentialCutoff::Off,
        ..VolumeSettings::new(VOLUME)
    }];
    plan.settings = EngineSettings {
        fill_linger: Duration::from_millis(1),
        origin_flush_after: Duration::from_millis(50),
        ..EngineSettings::default()
    };
    (plan.cache_latency, plan.origin_latency, plan.slow_part) = (LATENCY, LATENCY, None);
    plan.faults = Faults::default();
    plan.checks_every = 64;
    plan
}

/// Like [`plan`] in write-back mode, with limits so high that the engine starts no writeback by itself.
pub(crate) fn dirty_plan(seed: u64) -> Plan {
    let mut plan = plan(Mode::WriteBack, seed);
    let volume = &mut plan.volumes[0];
    (volume.dirty_low, volume.dirty_high, volume.dirty_limit) = (1_000, 1_010, 1_020);
    volume.idle_after = Duration::from_millis(1_000_000);
    plan
}

impl Stage {
    /// A formatted cache device before one empty origin, served.
    pub(crate) fn new(mode: Mode, seed: u64) -> Stage {
        let mut stage = Stage::with(plan(mode, seed), seed);
        assert_eq!(stage.open(), Phase::Running);
        stage
    }

    pub(crate) fn with(plan: Plan, seed: u64) -> Stage {
        let mut cache = SimulatedDevice::new(plan.cache_size);
        Engine::format(&mut cache, [7; 16], &plan.origin_sizes).unwrap();
        let origins = plan.origin_sizes.iter().map(|size| SimulatedDevice::new(*size)).collect();
        Stage {
            devices: Devices { cache, successor: None, redo: None, origins, noted: None },
            plan,
            host: None,
            queue: Queue::default(),
            trace: Trace::new(Printing::Silent),
            injected: Injected::default(),
            now: Instant::ZERO,
            next_id: 0,
            random: Random::new(seed),
            ended: BTreeMap::new(),
        }
    }

    pub(crate) fn open(&mut self) -> Phase {
        self.begin_open();
        self.end_open()
    }

    pub(crate) fn begin_open(&mut self) {
        let Plan { settings, volumes, .. } = &self.plan;
        let engine = <Engine as Subject>::open(self.now, &self.devices.cache, *settings, volumes);
        self.queue = Queue::default();
        self.host = Some(Host::new(engine.unwrap(), &self.plan, self.random.split(), self.now));
    }

    pub(crate) fn end_open(&mut self) -> Phase {
        self.until(|stage| stage.engine().phase() != Phase::Recovering);
        self.engine().phase()
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.host.as_ref().unwrap().engine
    }

    pub(crate) fn engine_mut(&mut self) -> &mut Engine {
        &mut self.host.as_mut().unwrap().engine
    }

    pub(crate) fn status(&self) -> Status {
        self.engine().status()
    }

    pub(crate) fn dirty(&self) -> u64 {
        let volume = self.status().volumes[0];
        volume.dirty_blocks + volume.unflushed_blocks
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn set_faults(&mut self, faults: Faults, outages: Vec<Outage>) {
        self.host.as_mut().unwrap().set_faults(faults, outages);
    }

    fn with_host<T>(&mut self, act: impl FnOnce(&mut Host<Engine>, &mut Surroundings<'_>) -> T) -> T {
        let mut around = Surroundings {
            now: self.now,
            devices: &mut self.devices,
            queue: &mut self.queue,
            trace: &mut self.trace,
            injected: &mut self.injected,
            faulty: true,
            phase_is_running: true,
        };
        act(self.host.as_mut().unwrap(), &mut around)
    }

    fn pump(&mut self) {
        loop {
            let replies = self.with_host(|host, around| host.pump(around)).unwrap();
            if replies.is_empty() {
                return;
            }
            for reply in replies {
                let payload = self.host.as_mut().unwrap().memory.remove(reply.id).unwrap();
                self.ended.insert(reply.id, (reply.result, payload));
            }
        }
    }

    /// Processes the next event; `false` if there will be none.
    pub(crate) fn step(&mut self) -> bool {
        self.pump();
        let timeout = self.engine().poll_timeout();
        let event = self.queue.next();
        let Some(next) = earlier(timeout, event) else { return false };
        self.now = self.now.max(next);
        let now = self.now;
        if event.is_some_and(|event| timeout.is_none_or(|timeout| event <= timeout)) {
            match self.queue.pop().unwrap().1 {
                Event::Apply(id) => self.with_host(|host, around| host.apply(id, around)).unwrap(),
                Event::Complete(id) => {
                    self.with_host(|host, around| host.complete(id, around)).unwrap();
                }
                Event::Client(_) | Event::Operator | Event::Restart(_) | Event::Grow | Event::Replace => {}
            }
        } else {
            self.engine_mut().handle_timeout(now);
        }
        self.pump();
        true
    }

    pub(crate) fn until(&mut self, holds: impl Fn(&Stage) -> bool) {
        for _ in 0..2_000_000 {
            self.pump();
            if holds(self) {
                return;
            }
            assert!(self.step(), "nothing will ever happen: {:?}", self.status());
        }
        panic!("too many steps: {:?}", self.status());
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        let end = self.now.plus(Duration::from_millis(millis));
        self.pump();
        loop {
            let next = earlier(self.engine().poll_timeout(), self.queue.next());
            if next.is_none_or(|next| next > end) {
                self.now = end;
                return;
            }
            self.step();
        }
    }

    pub(crate) fn ask(&mut self, operation: Operation, extent: ByteExtent, version: Version) -> RequestId {
        self.ask_of(VOLUME, operation, extent, version)
    }

    /// Submits a request to any volume; a write has a version.
    pub(crate) fn ask_of(
        &mut self,
        volume: VolumeId,
        operation: Operation,
        extent: ByteExtent,
        version: Version,
    ) -> RequestId {
        self.next_id += 1;
        let id = RequestId::new(self.next_id);
        let payload = match operation {
            Operation::Read => Payload::new(extent, |_| Block::Noise(1)),
            Operation::Write(_) => Payload::stamped(volume, extent, version),
            _ => Payload::empty(),
        };
        let checksums = if operation == Operation::Read { Vec::new() } else { payload.checksums() };
        let request = Request { id, volume, operation, extent, checksums: &checksums };
        let now = self.now;
        self.host.as_mut().unwrap().request(now, request, payload);
        id
    }

    pub(crate) fn has_ended(&self, id: RequestId) -> bool {
        self.ended.contains_key(&id)
    }

    pub(crate) fn finish(&mut self, id: RequestId) -> Result<Payload, Errno> {
        self.until(|stage| stage.has_ended(id));
        let (result, payload) = self.ended.remove(&id).unwrap();
        result.map(|()| payload)
    }

    pub(crate) fn write(&mut self, extent: ByteExtent, version: Version) -> Result<(), Errno> {
        let id = self.ask(Operation::Write(Durability::Volatile), extent, version);
        self.finish(id).map(|_| ())
    }

    pub(crate) fn discard(&mut self, block: u64) {
        let id = self.ask(Operation::Discard, blocks(block, 1), 0);
        self.finish(id).unwrap();
    }

    pub(crate) fn flush(&mut self) -> Result<(), Errno> {
        let id = self.ask(Operation::Flush, blocks(0, 0), 0);
        self.finish(id).map(|_| ())
    }

    /// The version of a block, which must be a whole one.
    pub(crate) fn read(&mut self, block: u64) -> Result<Version, Errno> {
        let id = self.ask(Operation::Read, blocks(block, 1), 0);
        let found = self.finish(id)?;
        Ok(found.blocks[0].version(VOLUME, block).unwrap_or_else(|| panic!("block {block}: {found:?}")))
    }

    pub(crate) fn read_all(&mut self, blocks: u64) -> Vec<Version> {
        (0..blocks).map(|block| self.read(block).unwrap()).collect()
    }

    pub(crate) fn on_origin(&self, block: u64) -> Option<Version> {
        self.devices.origins[0].blocks()[usize::try_from(block).unwrap()].version(VOLUME, block)
    }

    pub(crate) fn drain(&mut self) {
        let now = self.now;
        self.engine_mut().drain(now, VOLUME);
        self.until(|stage| stage.dirty() == 0);
    }

    pub(crate) fn stop(&mut self) {
        let now = self.now;
        self.engine_mut().stop(now);
        self.until(|stage| stage.engine().phase() == Phase::Stopped);
        self.host.as_ref().unwrap().engine.note_journal(&mut self.devices.cache).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.host.take().unwrap().kill(&mut self.devices);
        self.ended.clear();
    }

    /// Two versions of some blocks and one of another, all flushed, one more write with a header that declares them
    /// durable, and a kill.
    pub(crate) fn written_twice(seed: u64) -> Stage {
        let mut stage = Stage::with(dirty_plan(seed), seed);
        assert_eq!(stage.open(), Phase::Running);
        for version in [2, 3] {
            stage.write(blocks(0, 8), version).unwrap();
            stage.flush().unwrap();
        }
        stage.write(blocks(100, 1), 4).unwrap();
        stage.flush().unwrap();
        stage.write(blocks(101, 1), 4).unwrap();
        stage.kill();
        stage
    }

    /// Some segments full of dirty blocks, the last one not, and a kill.
    pub(crate) fn dirty_segments() -> Stage {
        let mut stage = Stage::with(dirty_plan(70), 70);
        assert_eq!(stage.open(), Phase::Running);
        for first in (0..100).step_by(5) {
            stage.write(blocks(first, 5), 2).unwrap();
        }
        stage.flush().unwrap();
        stage.pass(1_000);
        stage.kill();
        stage
    }

    fn superblock(&self) -> Superblock {
        let cache = &self.devices.cache;
        let copies =
            SUPERBLOCK_OFFSETS.map(|start| cache.bytes(ByteExtent { start, length: SUPERBLOCK_SIZE as u64 }));
        Superblock::decode([&copies[0], &copies[1]], cache.size()).unwrap()
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.superblock().geometry
    }

    /// Grows the cache device into an area that contains its own segments of this generation.
    pub(crate) fn grow(&mut self, size: u64, found: Generation) {
        let mut grown = self.superblock();
        grown.grow(size, Some(found)).unwrap();
        self.devices.cache.extend(size);
        let now = self.now;
        self.host.as_mut().unwrap().grow(now, &grown).unwrap();
        self.until(|stage| stage.engine().growth() == GrowthPhase::Prepared);
        let bytes = grown.encode();
        for offset in SUPERBLOCK_OFFSETS {
            for (place, part) in (offset / BLOCK_SIZE..).zip(bytes.chunks_exact(BLOCK_BYTES)) {
                self.devices.cache.prepare(place, &Block::from_bytes(part.try_into().unwrap()));
            }
        }
        let now = self.now;
        self.host.as_mut().unwrap().use_grown(now);
    }

    /// The places of the cache device's blocks of plain bytes that satisfy the predicate.
    pub(crate) fn places(&self, is_wanted: impl Fn(u64, &[u8]) -> bool) -> Vec<u64> {
        let found = (0u64..).zip(self.devices.cache.blocks()).filter(|(place, block)| match block {
            Block::Bytes(bytes) => is_wanted(*place, &bytes[..]),
            Block::Zeroes | Block::Noise(_) | Block::Stamp(_) => false,
        });
        found.map(|(place, _)| place).collect()
    }

    /// Continues with the rest of the log, as a tool does; the next start is a normal one.
    pub(crate) fn go_on_with_what_is_left(&mut self) {
        self.plan.settings.rotted_log = RottedLog::Accepted;
        assert_eq!(self.open(), Phase::Running);
        self.stop();
        self.kill();
        self.plan.settings.rotted_log = RottedLog::Refused;
        assert_eq!(self.open(), Phase::Running);
        self.kill();
    }

    /// Of the first 8 blocks of [`Stage::written_twice`] one is an error, and all others are there in their newest
    /// version.
    pub(crate) fn check_lost_alone(&mut self, lost: u64) {
        let found: Vec<_> = (0..8).map(|block| self.read(block)).collect();
        let expected: Vec<_> =
            (0..8).map(|block| if block == lost { Err(Errno::Io) } else { Ok(3) }).collect();
        assert_eq!(found, expected);
    }

    /// A bit flips in the copy of a block on the cache device that holds a version.
    pub(crate) fn rot(&mut self, block: u64, version: Version) {
        let holds = |found: &Block| found.version(VOLUME, block) == Some(version);
        let place = self.devices.cache.blocks().iter().position(holds).unwrap();
        self.devices.cache.flip_bit(blocks(place as u64, 1), &mut Random::new(1));
    }

    /// The place on the cache device where a block holds a version cannot be read any more.
    pub(crate) fn damage(&mut self, block: u64, version: Version) {
        let holds = |found: &Block| found.version(VOLUME, block) == Some(version);
        let place = self.devices.cache.blocks().iter().position(holds).unwrap();
        self.host.as_mut().unwrap().bad_spots().add(place as u64 * BLOCK_SIZE);
    }

    pub(crate) fn cut_power(&mut self) {
        if self.host.is_some() {
            self.kill();
        }
        self.devices.cache.cut_power(512, &mut self.random);
        self.devices.origins[0].cut_power(512, &mut self.random);
    }

    pub(crate) fn cut_and_open(&mut self) {
        self.cut_power();
        assert_eq!(self.open(), Phase::Running);
    }
}
