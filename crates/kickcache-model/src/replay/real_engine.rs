//! The real engine as a cache model: its submissions go to the virtual devices, without any data.
//!
//! Leaves out the server around the engine: the kernel's and the server's processor time for each request. A discard of
//! a device takes the time of a write of one block.

use kickcache_engine::blank_device;
use kickcache_engine::config::{EngineSettings, VolumeSettings};
use kickcache_engine::device::{
    Checksums, Completion, Data, Device, DeviceOperation, Pieces, Submission, SubmissionId,
};
use kickcache_engine::engine::{Engine, Phase};
use kickcache_engine::error::Error;
use kickcache_engine::format::superblock::Superblock;
use kickcache_engine::request::{Durability, Operation, Request, RequestId, Unmap};
use kickcache_engine::stats::Status;
use kickcache_engine::time::{Duration, Instant};
use kickcache_engine::units::{BLOCK_SIZE, ByteExtent, VolumeId};

use crate::device_model::{ModelOperation, ModelRequest};
use crate::replay::cache_model::{CacheModel, Demand, Tally};
use crate::replay::devices::{Devices, Place};
use crate::replay::slots::Slots;
use crate::workload::Kind;

pub struct Kickcache {
    engine: Engine,
    volume: VolumeId,
    /// Operations on memory that end at once and have a completion.
    copied: Vec<SubmissionId>,
    in_flight: Slots<Submitted>,
}

#[derive(Clone, Copy, Debug)]
struct Submitted {
    id: SubmissionId,
    checksums: usize,
}

impl Kickcache {
    /// A cache of `cache_bytes` on a blank device in front of an origin of `origin_bytes`; `change` may change the
    /// settings.
    ///
    /// # Errors
    /// If the engine refuses the sizes or the settings.
    pub fn new(
        cache_bytes: u64,
        origin_bytes: u64,
        change: impl FnOnce(&mut VolumeSettings),
    ) -> Result<Kickcache, Error> {
        Kickcache::with(EngineSettings::default(), cache_bytes, origin_bytes, change)
    }

    /// As [`Kickcache::new`], with other settings of the engine.
    ///
    /// # Errors
    /// As [`Kickcache::new`].
    pub fn with(
        settings: EngineSettings,
        cache_bytes: u64,
        origin_bytes: u64,
        change: impl FnOnce(&mut VolumeSettings),
    ) -> Result<Kickcache, Error> {
        let mut superblock = Superblock::new([1; 16], cache_bytes)?;
        let volume = superblock.add_volume("replay", origin_bytes, "replay")?;
        let mut served = VolumeSettings::new(volume);
        change(&mut served);
        let engine = Engine::open(Instant::ZERO, &superblock, settings, &[served])?;
        let (copied, in_flight) = (Vec::new(), Slots::default());
        let mut kickcache = Kickcache { engine, volume, copied, in_flight };
        kickcache.recover();
        Ok(kickcache)
    }

    fn recover(&mut self) {
        blank_device::run(&mut self.engine, Instant::ZERO);
        assert!(self.engine.phase() == Phase::Running, "a blank cache device needs no recovery");
    }

    pub fn status(&self) -> Status {
        self.engine.status()
    }

    fn pump(&mut self, now: Instant, devices: &mut Devices) {
        loop {
            while let Some(submission) = self.engine.poll_submission() {
                self.submit(now, &submission, devices);
            }
            let Some(id) = self.copied.pop() else { return };
            let result = Ok(Data { checksums: blank_device::checksums(1), bytes: &[] });
            self.engine.handle_completion(now, Completion { id, result });
        }
    }

    fn submit(&mut self, now: Instant, submission: &Submission, devices: &mut Devices) {
        let wanted = |pieces: &Pieces, checksums: Checksums| match checksums {
            Checksums::Compute => pieces.length() / BLOCK_SIZE,
            Checksums::Skip => 0,
        };
        let write = |durability: Durability| match durability {
            Durability::Volatile => ModelOperation::Write,
            Durability::Durable => ModelOperation::WriteDurable,
        };
        let (device, operation, offset, length, checksums) = match &submission.operation {
            DeviceOperation::Read { device, offset, pieces, checksums } => {
                (*device, ModelOperation::Read, *offset, pieces.length(), wanted(pieces, *checksums))
            }
            DeviceOperation::Write { device, offset, pieces, durability } => {
                (*device, write(*durability), *offset, pieces.length(), 0)
            }
            DeviceOperation::WriteMetadata { device, offset, bytes, pieces, durability } => {
                let payload: u64 = pieces.iter().map(|piece| u64::from(piece.length)).sum();
                (*device, write(*durability), *offset, bytes.len() as u64 + payload, 0)
            }
            DeviceOperation::Flush { device } => (*device, ModelOperation::Flush, 0, 0, 0),
            DeviceOperation::WriteZeroes { device, extent, durability, .. } => {
                (*device, write(*durability), extent.start, extent.length, 0)
            }
            DeviceOperation::Discard { device, extent } => {
                (*device, ModelOperation::Write, extent.start, BLOCK_SIZE, 0)
            }
            DeviceOperation::ReadMetadata { .. } => unreachable!("only recovery reads metadata"),
            DeviceOperation::NoteOutOfService { .. } => unreachable!("virtual devices never fail"),
            DeviceOperation::Copy { .. } | DeviceOperation::Zero { .. } => {
                if blank_device::data_of(&submission.operation).is_some() {
                    self.copied.push(submission.id);
                }
                return;
            }
        };
        let place = if device == Device::Cache { Place::Cache } else { Place::Origin };
        let checksums = usize::try_from(checksums).expect("at most 32 MiB");
        let token = u64::from(self.in_flight.insert(Submitted { id: submission.id, checksums }));
        devices.submit(now, place, ModelRequest { operation, offset, length, token });
    }
}

/// Blocks that an extent covers from end to end.
fn whole_blocks(extent: ByteExtent) -> usize {
    let (first, end) = (extent.start.div_ceil(BLOCK_SIZE), extent.end() / BLOCK_SIZE);
    usize::try_from(end.saturating_sub(first)).expect("at most 32 MiB")
}

impl CacheModel for Kickcache {
    fn handle_demand(&mut self, now: Instant, demand: Demand, devices: &mut Devices) {
        let blocks = whole_blocks(demand.extent);
        let (operation, checksums) = match demand.kind {
            Kind::Read => (Operation::Read, 0),
            Kind::Write => (Operation::Write(Durability::Volatile), blocks),
            Kind::Flush => (Operation::Flush, 0),
            Kind::Discard => (Operation::Discard, 0),
            Kind::WriteZeroes => {
                (Operation::WriteZeroes { unmap: Unmap::Allow, durability: Durability::Volatile }, 0)
            }
        };
        let request = Request {
            id: RequestId::new(demand.id),
            volume: self.volume,
            operation,
            extent: demand.extent,
            checksums: blank_device::checksums(checksums),
        };
        self.engine.handle_request(now, request);
        self.pump(now, devices);
    }

    fn handle_completion(&mut self, now: Instant, _: Place, token: u64, devices: &mut Devices) {
        let Submitted { id, checksums } =
            self.in_flight.take(u32::try_from(token).expect("tokens are indices"));
        let result = Ok(Data { checksums: blank_device::checksums(checksums), bytes: &[] });
        self.engine.handle_completion(now, Completion { id, result });
        self.pump(now, devices);
    }

    fn handle_timeout(&mut self, now: Instant, devices: &mut Devices) {
        self.engine.handle_timeout(now);
        self.pump(now, devices);
    }

    fn handle_sleep(&mut self, slept: Duration) {
        self.engine.handle_sleep(slept);
    }

    fn poll_reply(&mut self) -> Option<u32> {
        self.engine.poll_reply().map(|reply| reply.id.get())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.engine.poll_timeout()
    }

    fn tally(&self) -> Tally {
        let status = self.engine.status();
        let volume = &status.volumes[0];
        Tally {
            hit_blocks: volume.counters.hit_blocks,
            miss_blocks: volume.counters.miss_blocks,
            promoted_bytes: volume.counters.promoted_blocks * BLOCK_SIZE,
            logged_bytes: volume.counters.logged_blocks * BLOCK_SIZE,
            dirty_bytes: (volume.dirty_blocks + volume.unflushed_blocks) * BLOCK_SIZE,
        }
    }
}
