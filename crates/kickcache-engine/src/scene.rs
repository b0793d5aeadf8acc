//! A scene for tests of the paths: an engine, and its device operations, in order.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::blank_device;
use crate::config::{EngineSettings, Mode, OriginKind, VolumeSettings};
use crate::device::{Completion, Device, DeviceError, DeviceOperation, Submission};
use crate::engine::{Engine, Phase};
use crate::format::superblock::Superblock;
use crate::request::{Durability, Errno, Operation, Request, RequestId};
use crate::time::{Duration, Instant};
use crate::units::{BLOCK_SIZE, BlockIndex, BlockKey, ByteExtent, Location, VolumeId};

/// An engine with one volume of 1 GiB behind a cache device of 16 MiB.
pub(crate) struct Scene {
    pub(crate) engine: Engine,
    pub(crate) now: Instant,
    pub(crate) volume: VolumeId,
    failing: Option<Failing>,
    /// The beginning of the lines of held operations.
    holding: Option<&'static str>,
    held: Vec<Submission>,
}

#[derive(Clone, Copy)]
struct Failing {
    /// The beginning of the lines of failing operations.
    begin: &'static str,
    error: DeviceError,
    left: u32,
}

pub(crate) type Outcome = (Result<(), Errno>, Vec<String>);

const VOLUME: VolumeId = VolumeId::new(0);

impl Scene {
    pub(crate) fn new(mode: Mode) -> Scene {
        Scene::with_origin(OriginKind::Local, mode)
    }

    pub(crate) fn with_origin(origin: OriginKind, mode: Mode) -> Scene {
        let mut superblock = Superblock::new([1; 16], 16 << 20).unwrap();
        let volume = superblock.add_volume("v", 1 << 30, "v").unwrap();
        let settings = VolumeSettings {
            mode,
            origin,
            // Dirty blocks stay dirty until a test requests writeback.
            idle_after: Duration::from_millis(1_000_000),
            ..VolumeSettings::new(volume)
        };
        let engine =
            Engine::open(Instant::ZERO, &superblock, EngineSettings::default(), &[settings]).unwrap();
        let mut scene =
            Scene { engine, now: Instant::ZERO, volume, failing: None, holding: None, held: Vec::new() };
        scene.run();
        assert_eq!(scene.engine.phase(), Phase::Running);
        scene
    }

    /// Serves another volume, of 1 GiB, which gets the next requests.
    pub(crate) fn add_volume(&mut self, mode: Mode) {
        self.volume = VolumeId::new(self.volume.get() + 1);
        let settings = VolumeSettings { mode, ..*self.settings(VOLUME) };
        self.engine.add_volume(self.now, &VolumeSettings { volume: self.volume, ..settings }, 1 << 30);
    }

    pub(crate) fn settings(&mut self, volume: VolumeId) -> &mut VolumeSettings {
        &mut self.engine.state.volumes.get_mut(volume).settings
    }

    pub(crate) fn read(&mut self, start: u64, length: u64) -> Outcome {
        self.ask(Operation::Read, start, length)
    }

    pub(crate) fn write(&mut self, start: u64, length: u64) -> Outcome {
        self.ask(Operation::Write(Durability::Volatile), start, length)
    }

    pub(crate) fn flush(&mut self) -> Outcome {
        self.ask(Operation::Flush, 0, 0)
    }

    pub(crate) fn ask(&mut self, operation: Operation, start: u64, length: u64) -> Outcome {
        let mut seen = self.begin(operation, start, length);
        let mut waited = 0;
        let result = loop {
            if let Some(result) = self.take_reply() {
                break result;
            }
            assert!(waited < 100, "{operation:?} is not answered: {seen:?}");
            waited += 1;
            seen.extend(self.pass(Duration::from_millis(10)));
        };
        (result, seen)
    }

    /// A request that may wait; [`Scene::take_reply`] returns its result.
    pub(crate) fn begin(&mut self, operation: Operation, start: u64, length: u64) -> Vec<String> {
        let whole_blocks = ((start + length) / BLOCK_SIZE).saturating_sub(start.div_ceil(BLOCK_SIZE));
        let count = if matches!(operation, Operation::Write(_)) { whole_blocks } else { 0 };
        let checksums = blank_device::checksums(usize::try_from(count).unwrap());
        let (id, extent) = (RequestId::new(1), ByteExtent { start, length });
        self.engine
            .handle_request(self.now, Request { id, volume: self.volume, operation, extent, checksums });
        self.run()
    }

    pub(crate) fn take_reply(&mut self) -> Option<Result<(), Errno>> {
        self.engine.poll_reply().map(|reply| reply.result)
    }

    pub(crate) fn pass(&mut self, span: Duration) -> Vec<String> {
        let end = self.now.plus(span);
        let mut seen = Vec::new();
        while let Some(due) = self.engine.poll_timeout().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.engine.handle_timeout(self.now);
            seen.extend(self.run());
        }
        self.now = end;
        seen
    }

    /// Begins a drain, and lets a second pass.
    pub(crate) fn drain(&mut self) -> Vec<String> {
        self.engine.drain(self.now, VOLUME);
        let mut seen = self.run();
        seen.extend(self.pass(Duration::from_millis(1_000)));
        seen
    }

    /// Operations fail if their line begins like this.
    pub(crate) fn fail(&mut self, begin: &'static str, error: DeviceError) {
        self.fail_times(u32::MAX, begin, error);
    }

    pub(crate) fn fail_times(&mut self, left: u32, begin: &'static str, error: DeviceError) {
        self.failing = Some(Failing { begin, error, left });
    }

    pub(crate) fn heal(&mut self) {
        self.failing = None;
    }

    /// Operations with a line that begins like this do not end by themselves.
    pub(crate) fn hold(&mut self, begin: &'static str) {
        self.holding = Some(begin);
    }

    pub(crate) fn end_held(&mut self) -> Vec<String> {
        self.holding = None;
        self.end_all_held()
    }

    pub(crate) fn end_held_and_hold(&mut self, begin: &'static str) -> Vec<String> {
        self.holding = Some(begin);
        self.end_all_held()
    }

    pub(crate) fn end_held_first_and_hold(&mut self, begin: &'static str) -> Vec<String> {
        self.holding = Some(begin);
        let first = self.held.remove(0);
        self.end(first);
        self.run()
    }

    pub(crate) fn fail_held(&mut self, error: DeviceError) -> Vec<String> {
        for Submission { id, .. } in core::mem::take(&mut self.held) {
            self.engine.handle_completion(self.now, Completion { id, result: Err(error) });
        }
        self.run()
    }

    fn end_all_held(&mut self) -> Vec<String> {
        core::mem::take(&mut self.held).into_iter().for_each(|held| self.end(held));
        self.run()
    }

    fn end(&mut self, Submission { id, operation }: Submission) {
        let data = blank_device::data_of(&operation).expect("its end is waited for");
        self.engine.handle_completion(self.now, Completion { id, result: Ok(data) });
    }

    pub(crate) fn restart_origin(&mut self) -> Vec<String> {
        self.engine.origin_restarted(self.now, VOLUME);
        self.run()
    }

    pub(crate) fn not_clean(&self) -> (u64, u64) {
        let volume = &self.engine.status().volumes[0];
        (volume.dirty_blocks, volume.unflushed_blocks)
    }

    pub(crate) fn is_cached(&self, offset: u64) -> bool {
        self.engine.is_cached(self.volume, BlockIndex::containing(offset))
    }

    pub(crate) fn stop(&mut self) -> Vec<String> {
        self.engine.stop(self.now);
        let seen = self.run();
        assert_eq!(self.engine.phase(), Phase::Stopped);
        seen
    }

    pub(crate) fn location(&self, offset: u64) -> Location {
        let key = BlockKey::new(VOLUME, BlockIndex::containing(offset));
        self.engine.state.cache.find(key).expect("the block is cached")
    }

    pub(crate) fn run(&mut self) -> Vec<String> {
        let mut seen = Vec::new();
        while let Some(Submission { id, operation }) = self.engine.poll_submission() {
            let line = show(&operation);
            let failing = self.failing.as_mut();
            let failing = failing.filter(|failing| failing.left > 0 && line.starts_with(failing.begin));
            let error = failing.map(|failing| {
                failing.left -= 1;
                failing.error
            });
            if !line.is_empty() {
                seen.push(line);
            }
            assert!(seen.len() < 10_000, "it does not end: {:?}", &seen[9_990..]);
            if self.holding.is_some_and(|begin| show(&operation).starts_with(begin)) {
                self.held.push(Submission { id, operation });
                continue;
            }
            let Some(data) = blank_device::data_of(&operation) else { continue };
            let result = error.map_or(Ok(data), Err);
            self.engine.handle_completion(self.now, Completion { id, result });
        }
        seen
    }
}

/// A device operation as a line; empty for operations in memory.
fn show(operation: &DeviceOperation) -> String {
    let name = |device: &Device| match device {
        Device::Cache => "cache",
        Device::RedoJournal => "redo",
        Device::Origin(_) | Device::Successor => "origin",
    };
    let durable = |durability: &Durability| if *durability == Durability::Durable { ", durable" } else { "" };
    match operation {
        DeviceOperation::Read { device: Device::Cache, pieces, .. } => {
            format!("cache read {}", pieces.length())
        }
        DeviceOperation::Read { device, offset, pieces, .. } => {
            format!("{} read {offset}+{}", name(device), pieces.length())
        }
        DeviceOperation::Write { device, offset, pieces, durability } => {
            format!("{} write {offset}+{}{}", name(device), pieces.length(), durable(durability))
        }
        DeviceOperation::WriteMetadata { device, pieces, durability, .. } => {
            let payload: u64 = pieces.iter().map(|piece| u64::from(piece.length)).sum();
            format!("{} log {payload}{}", name(device), durable(durability))
        }
        DeviceOperation::ReadMetadata { .. } => "cache metadata".to_string(),
        DeviceOperation::Flush { device } => format!("{} flush", name(device)),
        DeviceOperation::Discard { device, extent } => {
            format!("{} discard {}+{}", name(device), extent.start, extent.length)
        }
        DeviceOperation::WriteZeroes { device, extent, .. } => {
            format!("{} zeroes {}+{}", name(device), extent.start, extent.length)
        }
        DeviceOperation::NoteOutOfService { .. } => "note".to_string(),
        DeviceOperation::Copy { .. } | DeviceOperation::Zero { .. } => String::new(),
    }
}
